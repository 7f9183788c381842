// RUN: vk-opt '--apply-plan{tiles="i=4","j=16" chunks="k=2" packs="x" lanes=j order=j,i}' --verify-mapped %s | filecheck %s
// Each place of a tensor has a pack of its own, which all loads of the place read; a number indexes its dimension.

vk.kernel @planes(%x: !vk.tensor<[M, K, 2], f32>, %y: !vk.tensor<[K, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %K = vk.size K
  vk.whole k < %K
  %first = vk.load %x[i, k, %zero] : !vk.tensor<[M, K, 2], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %second = vk.load %x[i, k, %one] : !vk.tensor<[M, K, 2], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %b = vk.load %y[k, j] : !vk.tensor<[K, N], f32> -> tensor<?x?xf32, #vk.axes<k, j>>
  %nothing = arith.constant 0.0 : f32
  %init = vk.broadcast %nothing : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %p = vk.dot %first, %b, %init along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<k, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  %q = vk.dot %second, %b, %p along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<k, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  %again = vk.load %x[i, k, %zero] : !vk.tensor<[M, K, 2], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %r = vk.dot %again, %b, %q along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<k, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %r in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:        %[[FIRST:packed_x[_0-9]*]] = vk.buffer "packed_x" [%{{.*}}] : !vk.buffer<[?, ?, 4], f32>
// CHECK:          vk.launch "pack x"
// CHECK:          vk.load %x[%{{.*}} + j, %{{.*}} + k, %0] :
// CHECK-NEXT:     vk.store %{{.*}} in %[[FIRST]][
// CHECK:        %[[SECOND:packed_x[_0-9]*]] = vk.buffer "packed_x" [%{{.*}}] : !vk.buffer<[?, ?, 4], f32>
// CHECK:          vk.launch "pack x"
// CHECK:          vk.load %x[%{{.*}} + j, %{{.*}} + k, %1] :
// CHECK-NEXT:     vk.store %{{.*}} in %[[SECOND]][
// CHECK:        vk.launch "planes"
// CHECK:          %first = vk.load %[[FIRST]][%p_i, %k0 + k, i]
// CHECK:          %second = vk.load %[[SECOND]][%p_i, %{{.*}} + k, i]
// CHECK:          %again = vk.load %[[FIRST]][%p_i, %{{.*}} + k, i]
// CHECK-NOT:      vk.load %x[
