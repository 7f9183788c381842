// RUN: vk-opt '--apply-plan{tiles="i=6","j=32" chunks="k=1" packs="a","b" lanes=j order=j,i}' --verify-mapped %s | filecheck %s
// Packed operands are f32 panels without masks; `lanes` lies along the rows of each tensor.
// Programs that pack b, whose panels lie across rows, go through the panels of a row in turn.

vk.kernel @matmul(%a: !vk.tensor<[M, K], f16>, %b: !vk.tensor<[K, N], f16>, %bias: !vk.tensor<[N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %K = vk.size K
  vk.whole k < %K
  %x = vk.load %a[i, k] : !vk.tensor<[M, K], f16> -> tensor<?x?xf16, #vk.axes<i, k>>
  %y = vk.load %b[k, j] : !vk.tensor<[K, N], f16> -> tensor<?x?xf16, #vk.axes<k, j>>
  %xf = arith.extf %x : tensor<?x?xf16, #vk.axes<i, k>> to tensor<?x?xf32, #vk.axes<i, k>>
  %yf = arith.extf %y : tensor<?x?xf16, #vk.axes<k, j>> to tensor<?x?xf32, #vk.axes<k, j>>
  %zero = arith.constant 0.0 : f32
  %init = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %p = vk.dot %xf, %yf, %init along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<k, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  %v = vk.load %bias[j] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<j>>
  %vb = vk.broadcast %v : tensor<?xf32, #vk.axes<j>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %r = arith.addf %p, %vb : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %r in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      vk.mapped @matmul
// CHECK:        %packed_a = vk.buffer "packed_a" [%{{.*}}, %{{.*}}] : !vk.buffer<[?, ?, 6], f32>
// CHECK:        vk.launch "pack a"
// CHECK:          vk.load %a[%{{.*}} + k, %{{.*}} + j] : !vk.tensor<[M, K], f16> -> tensor<6x16xf16, #vk.axes<k, j>>
// CHECK-NEXT:     arith.extf
// CHECK-NEXT:     vk.store %{{.*}} in %packed_a[%{{.*}}, %{{.*}} + j, k]
// CHECK:        vk.launch "pack b" over (%{{.*}} = %{{.*}}, %[[PANEL:[0-9]+]] = %{{.*}}) {
// CHECK:          vk.load %b[%{{.*}} + k, %{{.*}} + j] : !vk.tensor<[K, N], f16> -> tensor<16x32xf16, #vk.axes<k, j>>
// CHECK:          vk.store %{{.*}} in %packed_b[%[[PANEL]], %{{.*}} + k, j]
// CHECK:        vk.launch "matmul" over (%p_j = %{{.*}}, %p_i = %{{.*}}) {
// CHECK:          scf.for %k0
// CHECK-NEXT:       %x = vk.load %packed_a[%p_i, %k0 + k, i] : !vk.buffer<[?, ?, 6], f32> -> tensor<6x1xf32, #vk.axes<i, k>>
// CHECK-NEXT:       %y = vk.load %packed_b[%p_j, %k0 + k, j] : !vk.buffer<[?, ?, 32], f32> -> tensor<1x32xf32, #vk.axes<k, j>>
// CHECK-NEXT:       vk.dot %x, %y
// CHECK-NEXT:       scf.yield
