builtin.module {
  vk.kernel @scratchpad(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
    %M = vk.size M
    vk.tile i < %M
    %N = vk.size N
    vk.whole j < %N
    %row = vk.scratch "row" : !vk.scratch<[i, j], f32>
    %0 = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
    vk.store %0 in %row[i, j] : !vk.scratch<[i, j], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
    vk.boundary "shift"
    %1 = arith.constant 1 : i64
    %shifted = vk.load %row[i, %1 + j] guarding [1] : !vk.scratch<[i, j], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
    vk.boundary
    %2 = vk.load %row[i, j] : !vk.scratch<[i, j], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
    %3 = arith.addf %2, %shifted : tensor<?x?xf32, #vk.axes<i, j>>
    vk.store %3 in %row[i, j] : !vk.scratch<[i, j], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
    %4 = vk.load %row[i, j] : !vk.scratch<[i, j], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
    vk.store %4 in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
  }
}
