// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" multiples="M=4","N=16" distinct=true}' --verify-mapped %s | filecheck %s
// A scan in chunks: the loop carries the value that the scan has reached, and combines it with the scan of each chunk.

vk.kernel @running_sums(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sums = vk.scan sum %row along j : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %sums in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      scf.for %j0 = {{.*}} iter_args(%[[REACHED:[0-9]+]] = %{{[0-9]+}}) -> (tensor<4xf32, #vk.axes<i>>) : i64 {
// CHECK-NEXT:   %row = vk.load
// CHECK-NEXT:   %[[SCAN:[0-9]+]] = vk.scan sum %row along j
// CHECK-NEXT:   %[[BEFORE:[0-9]+]] = vk.broadcast %[[REACHED]]
// CHECK-NEXT:   %sums = arith.addf %[[BEFORE]], %[[SCAN]]
// CHECK-NEXT:   %[[CHUNK:[0-9]+]] = vk.sum %row along j
// CHECK-NEXT:   %[[NEXT:[0-9]+]] = arith.addf %[[REACHED]], %[[CHUNK]]
// CHECK-NEXT:   vk.store %sums in %out
// CHECK-NEXT:   scf.yield %[[NEXT]]
