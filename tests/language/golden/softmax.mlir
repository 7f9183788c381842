builtin.module {
  vk.kernel @softmax_rows(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f16>) {
    %M = vk.size M
    vk.tile i < %M
    %N = vk.size N
    vk.whole j < %N
    %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
    %0 = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
    %1 = vk.broadcast %0 : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
    %2 = arith.subf %row, %1 : tensor<?x?xf32, #vk.axes<i, j>>
    %e = math.exp %2 fastmath<afn> : tensor<?x?xf32, #vk.axes<i, j>>
    %3 = vk.sum %e along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
    %4 = vk.broadcast %3 : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
    %5 = arith.divf %e, %4 fastmath<afn> : tensor<?x?xf32, #vk.axes<i, j>>
    %6 = arith.truncf %5 : tensor<?x?xf32, #vk.axes<i, j>> to tensor<?x?xf16, #vk.axes<i, j>>
    vk.store %6 in %out[i, j] : !vk.tensor<[M, N], f16> <- tensor<?x?xf16, #vk.axes<i, j>>
  }
}
