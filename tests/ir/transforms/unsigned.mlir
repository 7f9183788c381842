// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16"}' --verify-mapped %s | filecheck %s
// Integers have no sign, operations have: minui begins from all bits set and maxui from 0, in inactive elements too, and
// chunks are combined by arith's own. A divisor of an inactive element is 1.

vk.kernel @extremes(%x: !vk.tensor<[M, N], i8>, %least: !vk.tensor<[M], i8>, %most: !vk.tensor<[M], i8>, %third: !vk.tensor<[M, N], i32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], i8> -> tensor<?x?xi8, #vk.axes<i, j>>
  %min = vk.minui %row along j : tensor<?x?xi8, #vk.axes<i, j>> -> tensor<?xi8, #vk.axes<i>>
  vk.store %min in %least[i] : !vk.tensor<[M], i8> <- tensor<?xi8, #vk.axes<i>>
  %max = vk.maxui %row along j : tensor<?x?xi8, #vk.axes<i, j>> -> tensor<?xi8, #vk.axes<i>>
  vk.store %max in %most[i] : !vk.tensor<[M], i8> <- tensor<?xi8, #vk.axes<i>>
  %wide = arith.extui %row : tensor<?x?xi8, #vk.axes<i, j>> to tensor<?x?xi32, #vk.axes<i, j>>
  %three = arith.constant 3 : i32
  %threes = vk.broadcast %three : i32 -> tensor<?x?xi32, #vk.axes<i, j>>
  %quotient = arith.divui %wide, %threes : tensor<?x?xi32, #vk.axes<i, j>>
  %small = arith.cmpi ult, %wide, %threes : tensor<?x?xi32, #vk.axes<i, j>>
  %chosen = arith.select %small, %wide, %quotient : tensor<?x?xi1, #vk.axes<i, j>>, tensor<?x?xi32, #vk.axes<i, j>>
  vk.store %chosen in %third[i, j] : !vk.tensor<[M, N], i32> <- tensor<?x?xi32, #vk.axes<i, j>>
}

// CHECK:      vk.mapped @extremes
// CHECK:        [[LEAST:%[0-9]+]] = arith.constant dense<-1> : tensor<4x16xi8, #vk.axes<i, j>>
// CHECK:        [[MOST:%[0-9]+]] = arith.constant dense<0> : tensor<4x16xi8, #vk.axes<i, j>>
// CHECK:        scf.for %j0 = {{.*}} = [[LEAST]], {{.*}} = [[MOST]])
// CHECK:          %wide = arith.extui %row : tensor<4x16xi8, #vk.axes<i, j>> to tensor<4x16xi32, #vk.axes<i, j>>
// CHECK:          arith.divui %wide, %threes
// CHECK-NEXT:     arith.cmpi ult, %wide, %threes
// CHECK:          arith.minui {{.*}}, %row
// CHECK-NEXT:     arith.maxui {{.*}}, %row
// CHECK:        [[ROW:%row_1]] = vk.load
// CHECK:        arith.select {{.*}}, [[ROW]], [[LEAST]]
// CHECK-NEXT:   arith.minui
// CHECK-NEXT:   arith.select {{.*}}, [[ROW]], [[MOST]]
// CHECK-NEXT:   arith.maxui
// CHECK:        vk.minui {{.*}} along j : tensor<4x16xi8, #vk.axes<i, j>> -> tensor<4xi8, #vk.axes<i>>
// CHECK-NEXT:   vk.maxui {{.*}} along j : tensor<4x16xi8, #vk.axes<i, j>> -> tensor<4xi8, #vk.axes<i>>
