// RUN: vk-opt '--apply-plan{tiles="i=32","j=32" chunks="k=32" packs="a","b" lanes=j order=j,i units="amx-bf16","avx512-bf16"}' --verify-mapped %s | filecheck %s
// A matrix unit takes chunks of 16 words. The rows' operand, %a, is packed in rows of 16 words, chunk by chunk; that of
// the columns as for other units. The fastest programs lie along i: rows pass, columns stay in the nearest cache.

vk.kernel @matmul(%a: !vk.tensor<[M, K], bf16>, %b: !vk.tensor<[K, N], bf16>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %K = vk.size K
  vk.whole k < %K
  %x = vk.load %a[i, k] : !vk.tensor<[M, K], bf16> -> tensor<?x?xbf16, #vk.axes<i, k>>
  %y = vk.load %b[k, j] : !vk.tensor<[K, N], bf16> -> tensor<?x?xbf16, #vk.axes<k, j>>
  %xf = arith.extf %x : tensor<?x?xbf16, #vk.axes<i, k>> to tensor<?x?xf32, #vk.axes<i, k>>
  %yf = arith.extf %y : tensor<?x?xbf16, #vk.axes<k, j>> to tensor<?x?xf32, #vk.axes<k, j>>
  %zero = arith.constant 0.0 : f32
  %init = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %p = vk.dot %xf, %yf, %init along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<k, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %p in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:        %packed_a = vk.buffer "packed_a" [%{{.*}}, %{{.*}}] : !vk.buffer<[?, ?, 32, 16], i32>
// CHECK:        vk.launch "pack a"
// CHECK:          vk.words %{{.*}} along j : tensor<32x32xbf16, #vk.axes<k, j>> -> tensor<32x16xi32, #vk.axes<k, j>>
// CHECK:          vk.store %{{.*}} in %packed_a[%{{.*}}, %{{.*}}, k, %{{.*}} + j]
// CHECK:        %packed_b = vk.buffer "packed_b" [%{{.*}}, %{{.*}}] : !vk.buffer<[?, ?, 32], i32>
// CHECK:        vk.launch "matmul" over (%p_j = %{{.*}}, %p_i = %{{.*}}) {
// CHECK:          scf.for %k0
// CHECK:            %x = vk.load %packed_a[%p_i, %{{.*}}, i, k] : !vk.buffer<[?, ?, 32, 16], i32> -> tensor<32x16xi32, #vk.axes<i, k>>
// CHECK-NEXT:       %y = vk.load %packed_b[%p_j, %{{.*}} + k, j] : !vk.buffer<[?, ?, 32], i32> -> tensor<16x32xi32, #vk.axes<k, j>>
// CHECK-NEXT:       vk.word_dot %y, %x, %{{.*}} along k of matrix_bf16 passing "right"
// CHECK-NEXT:       scf.yield
