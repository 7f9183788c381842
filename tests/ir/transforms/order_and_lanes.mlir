// RUN: vk-opt '--apply-plan{tiles="i=4","j=16" multiples="M=4","N=16" distinct=true}' --verify-mapped %s | filecheck %s --check-prefix DECLARED
// RUN: vk-opt '--apply-plan{tiles="i=4","j=16" order=j,i lanes=j multiples="M=4","N=16" distinct=true}' --verify-mapped %s | filecheck %s --check-prefix TURNED
// The order decides which program coordinate is the slowest; lanes are only noted, for lowerings.

vk.kernel @copy(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %a = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %a in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// DECLARED:     vk.mapped @copy(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) facts
// DECLARED:     vk.launch "copy" over (%p_i = %{{.*}}, %p_j = %{{.*}}) {
// DECLARED:       vk.load %x[%i0 + i, %j0 + j]

// TURNED:     vk.mapped @copy(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) lanes j facts
// TURNED:     vk.launch "copy" over (%p_j = %{{.*}}, %p_i = %{{.*}}) {
// TURNED:       vk.load %x[%i0 + i, %j0 + j]
