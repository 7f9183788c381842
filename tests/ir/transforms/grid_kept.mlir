// RUN: vk-opt '--apply-plan{tiles="i=4","k=4" chunks="j=16" launches=total lanes=j}' --verify-mapped %s | filecheck %s
// A row is read before all programs wait, and stored after that where it was read, without the tile axis i: it is kept
// in a home. Loaded again, it would be what another program along i has stored meanwhile.

vk.kernel @kept(%x: !vk.tensor<[K, N], f32>, %total: !vk.tensor<[M, K], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %K = vk.size K
  vk.tile k < %K
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[k, j] : !vk.tensor<[K, N], f32> -> tensor<?x?xf32, #vk.axes<k, j>>
  %sum = vk.sum %row along j : tensor<?x?xf32, #vk.axes<k, j>> -> tensor<?xf32, #vk.axes<k>>
  %all = vk.broadcast %sum : tensor<?xf32, #vk.axes<k>> -> tensor<?x?xf32, #vk.axes<i, k>>
  vk.store %all in %total[i, k] : !vk.tensor<[M, K], f32> <- tensor<?x?xf32, #vk.axes<i, k>>
  vk.boundary grid
  %sb = vk.broadcast %sum : tensor<?xf32, #vk.axes<k>> -> tensor<?x?xf32, #vk.axes<k, j>>
  %share = arith.divf %row, %sb : tensor<?x?xf32, #vk.axes<k, j>>
  vk.store %share in %x[k, j] : !vk.tensor<[K, N], f32> <- tensor<?x?xf32, #vk.axes<k, j>>
}
// CHECK:      vk.launch "total" over
// CHECK:        vk.load %x
// CHECK:      vk.launch "x" over
// CHECK-NOT:    vk.load %x
// CHECK:        vk.store %{{.*}} in %x
