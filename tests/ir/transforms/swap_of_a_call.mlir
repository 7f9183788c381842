// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" homes="s=memory" distinct=true}' --verify-mapped %s | filecheck %s
// Swap space along an axis of any extent takes whole chunks of it, computed at the top level.

vk.kernel @turn(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %c1 = arith.constant 1 : i64
  %last = arith.subi %N, %c1 : i64
  %s = vk.scratch "s" : !vk.scratch<[i, j], f32>
  %first = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %first in %s[i, j] : !vk.scratch<[i, j], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
  %turned = vk.load %s[i, %last + -1 * j] : !vk.scratch<[i, j], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %turned in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      %[[CHUNKS:[0-9]+]] = arith.ceildivsi %N, %{{.*}} : i64
// CHECK-NEXT: %[[LENGTH:[0-9]+]] = arith.muli %[[CHUNKS]], %{{.*}} : i64
// CHECK:      vk.launch "turn"
// CHECK-NEXT:   %s = vk.buffer "s" [%[[LENGTH]]] : !vk.buffer<[4, ?], f32>
