// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" multiples="M=4" distinct=true}' --verify-mapped %s | filecheck %s
// The sum is over a band, j >= i - w and j < length[i], and is 0 elsewhere. Its loop starts at the chunk of the first
// row's first position, unless w is so large that i - w may have wrapped, and ends at the greatest length; one chunk is
// always visited. The partial chunk at the end is visited where positions beyond the full chunks are needed.

vk.kernel @band(%x: !vk.tensor<[M, N], f32>, %length: !vk.tensor<[M], i32>, %w: i64, %out: !vk.tensor<[M], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %i = vk.position i : tensor<?xi64, #vk.axes<i>>
  %wi = vk.broadcast %w : i64 -> tensor<?xi64, #vk.axes<i>>
  %from = arith.subi %i, %wi : tensor<?xi64, #vk.axes<i>>
  %j = vk.position j : tensor<?xi64, #vk.axes<j>>
  %jj = vk.broadcast %j : tensor<?xi64, #vk.axes<j>> -> tensor<?x?xi64, #vk.axes<i, j>>
  %low = vk.broadcast %from : tensor<?xi64, #vk.axes<i>> -> tensor<?x?xi64, #vk.axes<i, j>>
  %after = arith.cmpi sge, %jj, %low : tensor<?x?xi64, #vk.axes<i, j>>
  %n = vk.load %length[i] : !vk.tensor<[M], i32> -> tensor<?xi32, #vk.axes<i>>
  %wide = arith.extsi %n : tensor<?xi32, #vk.axes<i>> to tensor<?xi64, #vk.axes<i>>
  %high = vk.broadcast %wide : tensor<?xi64, #vk.axes<i>> -> tensor<?x?xi64, #vk.axes<i, j>>
  %before = arith.cmpi sgt, %high, %jj : tensor<?x?xi64, #vk.axes<i, j>>
  %mask = arith.andi %after, %before : tensor<?x?xi1, #vk.axes<i, j>>
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %zero = arith.constant 0.0 : f32
  %none = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %seen = arith.select %mask, %row, %none : tensor<?x?xi1, #vk.axes<i, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %seen along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  vk.store %sum in %out[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
}

// CHECK:      %[[LARGEST:[0-9]+]] = arith.constant 72057594037927936
// CHECK:      %[[FITS:[0-9]+]] = arith.cmpi sle, %w, %[[LARGEST]]
// CHECK:      %[[W:[0-9]+]] = arith.addi %w, %{{[0-9]+}}
// CHECK:      %[[LOW:[0-9]+]] = arith.subi %{{[0-9]+}}, %[[W]]
// CHECK:      %[[MOST:[0-9]+]] = vk.max %n along i : tensor<4xi32, #vk.axes<i>> -> i32
// CHECK:      arith.select %{{[0-9]+}}, %[[LOW]], %{{[0-9]+}} : i64
// CHECK:      %[[CHUNKS:[0-9]+]] = arith.floordivsi %[[FIRST:[0-9]+]], %[[SIZE:[0-9]+]] : i64
// CHECK-NEXT: %[[START:[0-9]+]] = arith.muli %[[CHUNKS]], %[[SIZE]]
// CHECK:      %[[ONE:[0-9]+]] = arith.addi %[[FIRST]], %{{[0-9]+}}
// CHECK-NEXT: %[[END:[0-9]+]] = arith.maxsi %{{[0-9]+}}, %[[ONE]]
// CHECK-NEXT: %[[STOP:[0-9]+]] = arith.minsi %N, %[[END]]
// CHECK:      %[[MIDDLE:[0-9]+]] = arith.muli %{{[0-9]+}}, %[[SIZE]]
// CHECK-NEXT: %[[LAST:[0-9]+]] = arith.minsi %[[MIDDLE]], %[[STOP]]
// CHECK-NEXT: scf.for %j0 = %[[START]] to %[[LAST]] step %[[SIZE]]
// CHECK:      %[[PARTIAL:[0-9]+]] = arith.cmpi sgt, %[[STOP]], %[[MIDDLE]]
// CHECK-NEXT: scf.if %[[PARTIAL]]
