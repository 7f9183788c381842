// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" lanes=j multiples="M=4","N=16" distinct=true}' --version-chunks --verify-mapped %s | filecheck %s
// The rest of an index is contiguous in a chunk in which the quotient does not change: it is loaded at affine indices.
// Where it changes, at two places at most, each part is loaded by itself; what may change more often is gathered.

vk.kernel @wrapped(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %position = vk.position j : tensor<?xi64, #vk.axes<j>>
  %by = arith.constant 3 : i64
  %bys = vk.broadcast %by : i64 -> tensor<?xi64, #vk.axes<j>>
  %moved = arith.addi %position, %bys : tensor<?xi64, #vk.axes<j>>
  %divisor = vk.broadcast %N : i64 -> tensor<?xi64, #vk.axes<j>>
  %rest = arith.remsi %moved, %divisor : tensor<?xi64, #vk.axes<j>>
  %signs = arith.xori %rest, %divisor : tensor<?xi64, #vk.axes<j>>
  %zero = arith.constant 0 : i64
  %zeros = vk.broadcast %zero : i64 -> tensor<?xi64, #vk.axes<j>>
  %some = arith.cmpi ne, %rest, %zeros : tensor<?xi64, #vk.axes<j>>
  %differ = arith.cmpi slt, %signs, %zeros : tensor<?xi64, #vk.axes<j>>
  %wrong = arith.andi %some, %differ : tensor<?xi1, #vk.axes<j>>
  %corrected = arith.addi %rest, %divisor : tensor<?xi64, #vk.axes<j>>
  %place = arith.select %wrong, %corrected, %rest : tensor<?xi1, #vk.axes<j>>, tensor<?xi64, #vk.axes<j>>
  %row = vk.gather %x[i, %place] : !vk.tensor<[M, N], f32>, (tensor<?xi64, #vk.axes<j>>) -> tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %row in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      scf.for %j0
// CHECK:        arith.remsi %{{[0-9]+}}, %N : i64
// CHECK:        scf.if %{{[0-9]+}} {
// CHECK-NEXT:     %row = vk.load %x[%i0 + i, %{{[0-9]+}} + j]
// CHECK-NEXT:     vk.store %row in %out[%i0 + i, %j0 + j]
// CHECK-NEXT:   } else {
// CHECK-NEXT:     scf.if %{{[0-9]+}} {
// CHECK-COUNT-3:    vk.load %x[%i0 + i, %{{[0-9]+}} + j] where
// CHECK:            vk.store
// CHECK:          } else {
// CHECK:            arith.remsi %{{.*}} : tensor<16xi64
// CHECK:            %row_2 = vk.gather
// CHECK-NEXT:       vk.store %row_2
