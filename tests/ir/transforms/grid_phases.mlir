// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16","m=16" launches=part lanes=j}' --verify-mapped %s | filecheck %s
// RUN: vk-opt --split-phases %s | filecheck %s --check-prefix=PHASES
// All programs wait for one another: what comes after is a launch of its own, in which each reads what others wrote.

vk.kernel @shares(%x: !vk.tensor<[M, N], f32>, %part: !vk.tensor<[M], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  vk.whole m < %M
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  vk.store %sum in %part[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
  vk.boundary grid
  %all = vk.load %part[m] : !vk.tensor<[M], f32> -> tensor<?xf32, #vk.axes<m>>
  %total = vk.sum %all along m : tensor<?xf32, #vk.axes<m>> -> f32
  %spread = vk.broadcast %total : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %share = arith.divf %row, %spread : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %share in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
// CHECK:      vk.launch "part" over
// CHECK:        vk.sum
// CHECK:        vk.store %{{.*}} in %part
// CHECK:      vk.launch "out" over
// CHECK:        vk.load %part
// CHECK:        vk.store %{{.*}} in %out

// PHASES-LABEL: vk.kernel @shares
// PHASES:         vk.phase "sum" ->
// PHASES:         vk.phase "part" grid {
// PHASES:         vk.phase "total" ->
