builtin.module {
  vk.kernel @helpers(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M], f32>) {
    %M = vk.size M
    vk.tile i < %M
    %N = vk.size N
    vk.whole j < %N
    %0 = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
    %y = vk.sum %0 along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
    %1 = arith.constant 2.000000e+00 : f32
    %2 = vk.broadcast %1 : f32 -> tensor<?xf32, #vk.axes<i>>
    %y_1 = arith.mulf %y, %2 : tensor<?xf32, #vk.axes<i>>
    vk.whole j1 < %N
    %3 = vk.load %x[i, j1] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j1>>
    %4 = vk.sum %3 along j1 : tensor<?x?xf32, #vk.axes<i, j1>> -> tensor<?xf32, #vk.axes<i>>
    %5 = arith.addf %y_1, %4 : tensor<?xf32, #vk.axes<i>>
    vk.whole j2 < %N
    %6 = vk.load %x[i, j2] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j2>>
    %7 = vk.sum %6 along j2 : tensor<?x?xf32, #vk.axes<i, j2>> -> tensor<?xf32, #vk.axes<i>>
    %8 = arith.subf %5, %7 : tensor<?xf32, #vk.axes<i>>
    vk.store %8 in %out[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
  }
}
