// RUN: vk-opt '--apply-plan{tiles="i=16","j=16" chunks="k=16" lanes=j multiples="M=16","N=16","K=16" distinct=true}' '--lower-to-ttir{stages=3}' %s | filecheck %s
// RUN: vk-opt '--apply-plan{tiles="i=16","j=16" chunks="k=16" lanes=j multiples="M=16","N=16","K=16" distinct=true}' --lower-to-ttir %s | filecheck %s --check-prefix ONE
// Where loads are pipelined, one loop goes through all chunks of all steps of a range. It carries the place in each.

vk.kernel @products(%a: !vk.tensor<[R, M, K], f32>, %b: !vk.tensor<[R, K, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %K = vk.size K
  vk.whole k < %K
  %zero = arith.constant 0.0 : f32
  %init = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %first = arith.constant 0 : i64
  %R = vk.size R
  %total = vk.range %r = %first to %R carrying (%sum = %init : tensor<?x?xf32, #vk.axes<i, j>>) {
    %x = vk.load %a[%r, i, k] : !vk.tensor<[R, M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
    %y = vk.load %b[%r, k, j] : !vk.tensor<[R, K, N], f32> -> tensor<?x?xf32, #vk.axes<k, j>>
    %next = vk.dot %x, %y, %sum along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<k, j>>, tensor<?x?xf32, #vk.axes<i, j>>
    vk.yield %next : tensor<?x?xf32, #vk.axes<i, j>>
  }
  vk.store %total in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      [[CHUNKS:%[0-9]+]] = arith.ceildivsi %K, %{{.*}} : i64
// CHECK:      [[ALL:%[0-9]+]] = arith.muli
// CHECK:      scf.for %{{.*}} = %{{.*}} to [[ALL]] step %{{.*}} iter_args([[SUM:%[a-z0-9_]+]] = %{{.*}}, %r = %{{.*}}, %k0 = %{{.*}}) -> (tensor<16x16xf32>, i64, i64) : i64 {
// CHECK:        [[NEXT:%[0-9]+]] = arith.addi %k0, %{{.*}} : i64
// CHECK-NEXT:   [[DONE:%[0-9]+]] = arith.cmpi sge, [[NEXT]], %K : i64
// CHECK-NEXT:   [[K:%[0-9]+]] = arith.select [[DONE]], %{{.*}}, [[NEXT]] : i64
// CHECK-NEXT:   [[AFTER:%[0-9]+]] = arith.addi %r, %{{.*}} : i64
// CHECK-NEXT:   [[R:%[0-9]+]] = arith.select [[DONE]], [[AFTER]], %r : i64
// CHECK-NOT:    scf.for
// CHECK:        [[DOT:%[a-z0-9_]+]] = "tt.dot"(%{{.*}}, %{{.*}}, [[SUM]])
// CHECK-NEXT:   scf.yield [[DOT]], [[R]], [[K]]

// ONE:     scf.for %r =
// ONE:       scf.for %k0 =
