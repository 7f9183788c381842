// RUN: vk-opt '--apply-plan{tiles="i=4","j=16" lanes=j multiples="M=4","N=16" distinct=true}' --version-selects --verify-mapped %s | filecheck %s
// A chunk that lies before the first column of the second matrix loads from the first alone, one behind it from the
// second: only the chunk in which they meet loads from both, and chooses.

vk.kernel @join(%x: !vk.tensor<[M, P], f32>, %y: !vk.tensor<[M, P], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %P = vk.size P
  %position = vk.position j : tensor<?xi64, #vk.axes<j>>
  %ends = vk.broadcast %P : i64 -> tensor<?xi64, #vk.axes<j>>
  %before = arith.cmpi slt, %position, %ends : tensor<?xi64, #vk.axes<j>>
  %one = vk.load %x[i, j] guarding [1] : !vk.tensor<[M, P], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %other = vk.load %y[i, j] guarding [1] : !vk.tensor<[M, P], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %chosen = vk.broadcast %before : tensor<?xi1, #vk.axes<j>> -> tensor<?x?xi1, #vk.axes<i, j>>
  %row = arith.select %chosen, %one, %other : tensor<?x?xi1, #vk.axes<i, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %row in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      [[FIRST:%[0-9]+]] = arith.cmpi sge, %P, %{{[0-9]+}} : i64
// CHECK-NEXT: [[SECOND:%[0-9]+]] = arith.cmpi sge, %{{[0-9]+}}, %P : i64
// CHECK-NEXT: scf.if [[FIRST]] {
// CHECK-NEXT:   %one = vk.load %x
// CHECK-NEXT:   vk.store %one in %out
// CHECK-NEXT: } else {
// CHECK-NEXT:   scf.if [[SECOND]] {
// CHECK-NEXT:     vk.load %y
// CHECK-NEXT:     vk.store
// CHECK-NEXT:   } else {
// CHECK-NEXT:     vk.load %x
// CHECK:          vk.load %y
// CHECK:          arith.select
// CHECK:          vk.store
