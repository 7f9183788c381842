// RUN: vk-opt --split-phases %s | filecheck %s
// Integers of eight bits that are multiplied with bf16 become bf16, as dot units take them; with f32 they become f32.

vk.kernel @dequantised(%x: !vk.tensor<[M, K], bf16>, %y: !vk.tensor<[M, K], f32>, %w: !vk.tensor<[N, K], i8>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %K = vk.size K
  vk.whole k < %K
  %a = vk.load %x[i, k] : !vk.tensor<[M, K], bf16> -> tensor<?x?xbf16, #vk.axes<i, k>>
  %b = arith.extf %a : tensor<?x?xbf16, #vk.axes<i, k>> to tensor<?x?xf32, #vk.axes<i, k>>
  %c = vk.load %w[j, k] : !vk.tensor<[N, K], i8> -> tensor<?x?xi8, #vk.axes<j, k>>
  %d = arith.sitofp %c : tensor<?x?xi8, #vk.axes<j, k>> to tensor<?x?xf32, #vk.axes<j, k>>
  %e = vk.load %y[i, k] : !vk.tensor<[M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %zero = arith.constant 0.0 : f32
  %z = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %f = vk.dot %b, %d, %z along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<j, k>>, tensor<?x?xf32, #vk.axes<i, j>>
  %g = vk.dot %e, %d, %z along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<j, k>>, tensor<?x?xf32, #vk.axes<i, j>>
  %h = arith.addf %f, %g : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %h in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      %[[X:.*]] = arith.extf
// CHECK:      %[[F32:.*]] = arith.sitofp
// CHECK:      %[[BF16:.*]] = arith.truncf %[[F32]] : {{.*}} to tensor<?x?xbf16
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[BF16]]
// CHECK-NEXT: vk.dot %[[X]], %[[W]]
// CHECK-NEXT: vk.dot %{{.*}}, %[[F32]]
