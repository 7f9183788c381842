// RUN: vk-opt '--apply-plan{tiles="i=4","j=16" streams=out multiples="M=4","N=16" distinct=true}' --verify-mapped %s | filecheck %s
// Stores to a streamed tensor say so; loads do not.

vk.kernel @copy(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %a = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %a in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:     vk.load %x[%i0 + i, %j0 + j] : !vk.tensor<[M, N], f32>
// CHECK:     vk.store %a streaming in %out[%i0 + i, %j0 + j] : !vk.tensor<[M, N], f32>
