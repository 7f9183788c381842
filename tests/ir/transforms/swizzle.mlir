// RUN: vk-opt '--apply-plan{tiles="i=4","j=16" swizzle=8 multiples="M=4","N=16" distinct=true}' --verify-mapped %s | filecheck %s
// RUN: vk-opt '--apply-plan{tiles="i=4","j=16" swizzle=1 multiples="M=4","N=16" distinct=true}' --verify-mapped %s | filecheck %s --check-prefix PLAIN
// Programs of eight rows, or of those that are left, count along i first: the grid stays, coordinates are reordered.

vk.kernel @copy(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %a = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %a in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      %[[ROWS:[0-9]+]] = arith.ceildivsi %M
// CHECK:      %[[COLUMNS:[0-9]+]] = arith.ceildivsi %N
// CHECK:      %[[EIGHT:[0-9]+]] = arith.constant 8 : i64
// CHECK:      vk.launch "copy" over (%p_i = %[[ROWS]], %p_j = %[[COLUMNS]]) {
// CHECK-NEXT:   %[[GROUP:[0-9]+]] = arith.floordivsi %p_i, %[[EIGHT]]
// CHECK-NEXT:   %[[FIRST:[0-9]+]] = arith.muli %[[GROUP]], %[[EIGHT]]
// CHECK-NEXT:   %[[LEFT:[0-9]+]] = arith.subi %[[ROWS]], %[[FIRST]]
// CHECK-NEXT:   %[[HEIGHT:[0-9]+]] = arith.minsi %[[LEFT]], %[[EIGHT]]
// CHECK-NEXT:   %[[OFFSET:[0-9]+]] = arith.subi %p_i, %[[FIRST]]
// CHECK-NEXT:   %[[BEFORE:[0-9]+]] = arith.muli %[[OFFSET]], %[[COLUMNS]]
// CHECK-NEXT:   %[[WITHIN:[0-9]+]] = arith.addi %[[BEFORE]], %p_j
// CHECK-NEXT:   %[[J:[0-9]+]] = arith.floordivsi %[[WITHIN]], %[[HEIGHT]]
// CHECK-NEXT:   %[[WHOLE:[0-9]+]] = arith.muli %[[J]], %[[HEIGHT]]
// CHECK-NEXT:   %[[ROW:[0-9]+]] = arith.subi %[[WITHIN]], %[[WHOLE]]
// CHECK-NEXT:   %[[I:[0-9]+]] = arith.addi %[[FIRST]], %[[ROW]]
// CHECK-NEXT:   %i0 = arith.muli %[[I]]
// CHECK-NEXT:   %j0 = arith.muli %[[J]]
// CHECK-NEXT:   vk.load %x[%i0 + i, %j0 + j]

// PLAIN:      vk.launch "copy" over (%p_i = %{{.*}}, %p_j = %{{.*}}) {
// PLAIN-NEXT:   %i0 = arith.muli %p_i
// PLAIN-NEXT:   %j0 = arith.muli %p_j
