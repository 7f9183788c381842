// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" splits="j=3" multiples="M=4" distinct=true}' --verify-mapped %s | filecheck %s
// A whole axis is shared by several programs: each stores its partial sums, and a second launch combines them.

vk.kernel @row_sums(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  vk.store %sum in %out[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
}

// CHECK:      %partial_sum = vk.buffer "partial_sum" [%[[TILES:[0-9]+]]] : !vk.buffer<[?, 3, 4], f32>
// CHECK:      vk.launch "sum" over (%[[P:[a-z0-9_]+]] = %[[TILES]], %[[SHARE:[a-z0-9_]+]] = %{{[0-9]+}}) {
// CHECK:        scf.for %j0 = %{{[0-9]+}} to
// CHECK:        %[[SUM:[a-z0-9_]+]] = vk.sum
// CHECK-NEXT:   vk.store %[[SUM]] in %partial_sum[%[[P]], %[[SHARE]], i]
// CHECK-NEXT: }
// CHECK:      vk.launch "out" over (%[[P:[a-z0-9_]+]] = %[[TILES]]) {
// CHECK:        scf.for
// CHECK-NEXT:     %[[PART:[0-9]+]] = vk.load %partial_sum[%[[P]], %{{[0-9]+}}, i]
// CHECK-NEXT:     arith.addf %{{[0-9]+}}, %[[PART]]
// CHECK:        vk.store %{{[0-9]+}} in %out[
