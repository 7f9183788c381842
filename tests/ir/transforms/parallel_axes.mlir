// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="k=8","h=16","n=16" homes="hidden=memory" launches=hidden parallel=h,n multiples="M=4","H=16","N=16" distinct=true}' --verify-mapped %s | filecheck %s
// Two layers in two launches: programs of the first divide the hidden features, programs of the second the results.
// Each has one chunk, without a loop; of what the second contracts, every program has all.

vk.kernel @layers(%x: !vk.tensor<[M, K], f32>, %w1: !vk.tensor<[K, H], f32>, %w2: !vk.tensor<[H, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %K = vk.size K
  vk.whole k < %K
  %H = vk.size H
  vk.whole h < %H
  %N = vk.size N
  vk.whole n < %N
  %zero = arith.constant 0.000000e+00 : f32
  %x0 = vk.load %x[i, k] : !vk.tensor<[M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %first = vk.load %w1[k, h] : !vk.tensor<[K, H], f32> -> tensor<?x?xf32, #vk.axes<k, h>>
  %none = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, h>>
  %product = vk.dot %x0, %first, %none along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<k, h>>, tensor<?x?xf32, #vk.axes<i, h>>
  %hidden = arith.maximumf %product, %none : tensor<?x?xf32, #vk.axes<i, h>>
  vk.boundary
  %second = vk.load %w2[h, n] : !vk.tensor<[H, N], f32> -> tensor<?x?xf32, #vk.axes<h, n>>
  %nothing = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, n>>
  %result = vk.dot %hidden, %second, %nothing along h precision ieee : tensor<?x?xf32, #vk.axes<i, h>>, tensor<?x?xf32, #vk.axes<h, n>>, tensor<?x?xf32, #vk.axes<i, n>>
  vk.store %result in %out[i, n] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, n>>
}

// CHECK:      %hidden = vk.buffer "hidden" [%{{[0-9]+}}, %H] : !vk.buffer<[?, 4, ?], f32>
// CHECK:      vk.launch "hidden" over (%p_i = %{{[0-9]+}}, %p_h = %{{[0-9]+}}) {
// CHECK:        %[[H0:[0-9]+]] = arith.muli %p_h
// CHECK:        scf.for %k0
// CHECK-NOT:    scf.for
// CHECK:        vk.store %{{.*}} in %hidden[%p_i, i, %[[H0]] + h]
// CHECK:      vk.launch "out" over (%[[P:[a-z0-9_]+]] = %{{[0-9]+}}, %p_n = %{{[0-9]+}}) {
// CHECK:        scf.for %h0
// CHECK:          vk.load %hidden[%[[P]], i, %h0 + h]
// CHECK-NOT:    scf.for
// CHECK:        vk.store %{{.*}} in %out
