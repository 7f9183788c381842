// RUN: vk-opt '--apply-plan{tiles="i=4","j=8" chunks="k=4" lanes=j distinct=true}' --version-loops --verify-mapped %s | filecheck %s
// Columns of x that are by places earlier may lie outside of it: guarded along k. The first and the last of all
// iterations tell whether any does, so most programs run a loop without guards.

vk.kernel @moved(%x: !vk.tensor<[M, K], f32>, %w: !vk.tensor<[K, N], f32>, %by: i64, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %K = vk.size K
  vk.whole k < %K
  %left = vk.load %x[i, %by + k] guarding [1] : !vk.tensor<[M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %right = vk.load %w[k, j] : !vk.tensor<[K, N], f32> -> tensor<?x?xf32, #vk.axes<k, j>>
  %zero = arith.constant 0.0 : f32
  %none = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %product = vk.dot %left, %right, %none along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<k, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %product in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      %[[first:.*]] = arith.cmpi sge, %{{.*}}, %{{.*}} : i64
// CHECK:      scf.if %{{[0-9]+}} -> (tensor<4x8xf32, #vk.axes<i, j>>) {
// CHECK-NEXT:   scf.for %k0
// CHECK-NOT:    guarding
// CHECK:        vk.dot
// CHECK:      } else {
// CHECK:        scf.for %k0
// CHECK:        guarding [1]
// CHECK:        vk.dot
