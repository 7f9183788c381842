// RUN: vk-opt '--apply-plan{tiles="i=2","j=4" chunks="k=4" order=i,j lanes=j sizes="M=8","N=10","K=8" distinct=true}' --keep-between-programs --verify-mapped %s | filecheck %s
// The sums of rows are the same for all tiles of these rows: the first of them computes the sums, in the variant that it
// runs, and all load them. The products with columns depend on both coordinates.

vk.kernel @scaled(%x: !vk.tensor<[M, K], f32>, %w: !vk.tensor<[K, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %K = vk.size K
  vk.whole k < %K
  %a = vk.load %x[i, k] : !vk.tensor<[M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %s = vk.sum %a along k : tensor<?x?xf32, #vk.axes<i, k>> -> tensor<?xf32, #vk.axes<i>>
  %t = math.exp %s : tensor<?xf32, #vk.axes<i>>
  %b = vk.load %x[i, k] : !vk.tensor<[M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %u = vk.broadcast %t : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, k>>
  %e = arith.mulf %b, %u : tensor<?x?xf32, #vk.axes<i, k>>
  %c = vk.load %w[k, j] : !vk.tensor<[K, N], f32> -> tensor<?x?xf32, #vk.axes<k, j>>
  %zero = arith.constant 0.0 : f32
  %z = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %d = vk.dot %e, %c, %z along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<k, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %d in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      vk.launch "scaled" over (%p_i = %{{.*}}, %p_j = %{{.*}}) {
// CHECK-NEXT:   %[[T:.*]] = vk.scratch "t" : !vk.scratch<[2], f32>
// CHECK:        scf.if %{{.*}} {
// CHECK:          %[[FIRST:.*]] = vk.first %p_j
// CHECK-NEXT:     scf.if %[[FIRST]] {
// CHECK-NEXT:       scf.for
// CHECK-NOT:        vk.dot
// CHECK:            %[[SUM:.*]] = vk.sum
// CHECK-NEXT:       %[[EXP:.*]] = math.exp %[[SUM]]
// CHECK-NEXT:       vk.store %[[EXP]] in %[[T]][i]
// CHECK-NEXT:     } else {
// CHECK-NEXT:     }
// CHECK-NEXT:     %[[KEPT:.*]] = vk.load %[[T]][i]
// CHECK:          scf.for
// CHECK:            vk.broadcast %[[KEPT]]
// CHECK:            vk.dot
// CHECK:        } else {
// CHECK:          vk.first %p_j
// CHECK:          vk.store %{{.*}} in %[[T]][i]
// CHECK:          vk.load %[[T]][i]
// CHECK:          within (j < %{{.*}})
