// RUN: vk-opt '--apply-plan{tiles="i=16","j=32" chunks="k=64" k_major="b" lanes=j}' --verify-mapped %s | filecheck %s
// The copy has the contracted dimension last, in whole chunks with 0 past its end: its loads have no mask along k.
// A thread copies 32 elements at least: the launch has no more warps than that, if the plan has more.

vk.kernel @matmul(%a: !vk.tensor<[M, K], f16>, %b: !vk.tensor<[K, N], f16>, %out: !vk.tensor<[M, N], f32>) {
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
  vk.store %p in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      %[[LENGTH:[0-9]+]] = arith.muli
// CHECK-NEXT: %k_major_b = vk.buffer "k_major_b" [%N, %[[LENGTH]]] : !vk.buffer<[?, ?], f16>
// CHECK:      vk.launch "copy b" over ({{.*}}) attributes {warps = 2 : i64}
// CHECK:        %[[PADDED:[0-9]+]] = arith.subi %[[LENGTH]]
// CHECK-NEXT:   %[[LEFT:[0-9]+]] = arith.subi %K
// CHECK-NEXT:   vk.load %b[%{{[0-9]+}} + k, %{{[0-9]+}} + i] within (i < %{{[0-9]+}}, k < %[[LEFT]])
// CHECK-NEXT:   vk.store %{{[0-9]+}} in %k_major_b[%{{[0-9]+}} + i, %{{[0-9]+}} + k] within (i < %{{[0-9]+}}, k < %[[PADDED]])
// CHECK:      vk.launch "matmul"
// CHECK:        scf.for
// CHECK-NEXT:     vk.load %a[%i0 + i, %k0 + k]
// CHECK-NEXT:     vk.load %k_major_b[%j0 + j, %k0 + k] :
// CHECK:        scf.if
// CHECK-NEXT:     vk.load %a[%i0 + i, %{{[0-9]+}} + k] within
// CHECK-NEXT:     vk.load %k_major_b[%j0 + j, %{{[0-9]+}} + k] :
