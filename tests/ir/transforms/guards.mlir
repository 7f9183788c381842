// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" guards=j sizes="N=64" multiples="M=4" distinct=true}' --verify-mapped %s | filecheck %s
// Positions of other segments are left out of the maximum: a chunk is visited if its mask holds anywhere, or if it is the
// first, without which a row of nothing would differ. The mask is computed once, for the test and for the chunk.

vk.kernel @most(%x: !vk.tensor<[M, N], f32>, %mine: !vk.tensor<[M], i32>, %theirs: !vk.tensor<[N], i32>, %out: !vk.tensor<[M], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %a = vk.load %mine[i] : !vk.tensor<[M], i32> -> tensor<?xi32, #vk.axes<i>>
  %b = vk.load %theirs[j] : !vk.tensor<[N], i32> -> tensor<?xi32, #vk.axes<j>>
  %aa = vk.broadcast %a : tensor<?xi32, #vk.axes<i>> -> tensor<?x?xi32, #vk.axes<i, j>>
  %bb = vk.broadcast %b : tensor<?xi32, #vk.axes<j>> -> tensor<?x?xi32, #vk.axes<i, j>>
  %same = arith.cmpi eq, %aa, %bb : tensor<?x?xi32, #vk.axes<i, j>>
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %low = arith.constant 0xFF800000 : f32
  %none = vk.broadcast %low : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %seen = arith.select %same, %row, %none : tensor<?x?xi1, #vk.axes<i, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %seen along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  vk.store %max in %out[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
}

// CHECK:      scf.for %j0 = %[[ZERO:[0-9]+]] to %{{[0-9]+}} step %{{[0-9]+}} iter_args(%[[SO_FAR:[0-9]+]] = %{{[0-9]+}})
// CHECK:        %same = arith.cmpi eq
// CHECK-NEXT:   %[[BITS:[0-9]+]] = arith.extui %same : {{.*}} to tensor<4x16xi32
// CHECK-NEXT:   %[[ROWS:[0-9]+]] = vk.max %[[BITS]] along i
// CHECK-NEXT:   %[[MOST:[0-9]+]] = vk.max %[[ROWS]] along j : tensor<16xi32, #vk.axes<j>> -> i32
// CHECK:        %[[ANY:[0-9]+]] = arith.cmpi ne, %[[MOST]]
// CHECK-NEXT:   %[[FIRST:[0-9]+]] = arith.cmpi eq, %j0, %[[ZERO]]
// CHECK-NEXT:   %[[VISITED:[0-9]+]] = arith.ori %[[ANY]], %[[FIRST]]
// CHECK-NEXT:   scf.if %[[VISITED]]
// CHECK-NEXT:     %row = vk.load
// CHECK:          %seen = arith.select %same
// CHECK:          arith.maximumf %[[SO_FAR]], %seen
// CHECK:        } else {
// CHECK-NEXT:     scf.yield %[[SO_FAR]]
