// RUN: vk-opt '--apply-plan{tiles="i=4","j=8" chunks="m=16","n=16" launches=mean lanes=j}' --verify-mapped %s | filecheck %s
// Each launch has programs along the tile axes that it names; what crosses has a part for each program that makes it.

vk.kernel @centred(%x: !vk.tensor<[M, N], f32>, %mean: !vk.tensor<[N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  vk.whole m < %M
  %N = vk.size N
  vk.tile j < %N
  vk.whole n < %N
  %column = vk.load %x[m, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<m, j>>
  %sum = vk.sum %column along m : tensor<?x?xf32, #vk.axes<m, j>> -> tensor<?xf32, #vk.axes<j>>
  vk.store %sum in %mean[j] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<j>>
  vk.boundary grid
  %row = vk.load %x[i, n] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, n>>
  %every = vk.load %mean[n] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<n>>
  %spread = vk.broadcast %every : tensor<?xf32, #vk.axes<n>> -> tensor<?x?xf32, #vk.axes<i, n>>
  %apart = arith.subf %row, %spread : tensor<?x?xf32, #vk.axes<i, n>>
  vk.store %apart in %out[i, n] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, n>>
}
// CHECK:      vk.launch "mean" over (%p_j = %{{[0-9]+}})
// CHECK:        vk.store %{{.*}} in %mean
// CHECK:      vk.launch "out" over (%p_i = %{{[0-9]+}})
// CHECK:        vk.store %{{.*}} in %out
