// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" homes="e=memory" launches=sum multiples="M=4","N=16" distinct=true}' --verify-mapped %s | filecheck %s
// A launch of its own begins after a phase. What crosses it lies in buffers with a part for each program: values that
// are held, where they have been computed; a value in chunks, at its home. The maximum, which nobody needs, does not.

vk.kernel @softmax(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %mb = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %d = arith.subf %row, %mb : tensor<?x?xf32, #vk.axes<i, j>>
  %e = math.exp %d : tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %e along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %sb = vk.broadcast %sum : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %q = arith.divf %e, %sb : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %q in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK-NOT:  vk.buffer "max"
// CHECK:      %sum = vk.buffer "sum" [%[[PROGRAMS:[0-9]+]]] : !vk.buffer<[?, 4], f32>
// CHECK:      %e = vk.buffer "e" [%[[PROGRAMS]], %N] : !vk.buffer<[?, 4, ?], f32>
// CHECK:      vk.launch "sum" over (%[[P:[a-z0-9_]+]] = %[[PROGRAMS]]) {
// CHECK:        vk.max
// CHECK:        %[[E:e_[0-9]+]] = math.exp
// CHECK-NEXT:   vk.store %[[E]] in %e[%[[P]], i, %{{.*}} + j]
// CHECK:        %[[SUM:sum_[0-9]+]] = vk.sum
// CHECK-NEXT:   vk.store %[[SUM]] in %sum[%[[P]], i]
// CHECK-NEXT: }
// CHECK-NEXT: vk.launch "out" over (%[[P:[a-z0-9_]+]] = %[[PROGRAMS]]) {
// CHECK:        vk.load %sum[%[[P]], i]
// CHECK:        scf.for
// CHECK:          vk.load %e[%[[P]], i, %{{.*}} + j]
// CHECK-NOT:    math.exp
