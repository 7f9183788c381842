builtin.module {
  vk.kernel @unrolled_stencil(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>) {
    %N = vk.size N
    vk.tile i < %N
    %0 = arith.constant 0.000000e+00 : f32
    %total = vk.broadcast %0 : f32 -> tensor<?xf32, #vk.axes<i>>
    %1 = arith.constant -1 : i64
    %2 = vk.load %x[%1 + i] guarding [0] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    %3 = arith.constant 2.500000e-01 : f32
    %4 = vk.broadcast %3 : f32 -> tensor<?xf32, #vk.axes<i>>
    %5 = arith.mulf %4, %2 : tensor<?xf32, #vk.axes<i>>
    %total_1 = arith.addf %total, %5 : tensor<?xf32, #vk.axes<i>>
    %6 = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    %7 = arith.constant 5.000000e-01 : f32
    %8 = vk.broadcast %7 : f32 -> tensor<?xf32, #vk.axes<i>>
    %9 = arith.mulf %8, %6 : tensor<?xf32, #vk.axes<i>>
    %total_2 = arith.addf %total_1, %9 : tensor<?xf32, #vk.axes<i>>
    %10 = arith.constant 1 : i64
    %11 = vk.load %x[%10 + i] guarding [0] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    %12 = vk.broadcast %3 : f32 -> tensor<?xf32, #vk.axes<i>>
    %13 = arith.mulf %12, %11 : tensor<?xf32, #vk.axes<i>>
    %total_3 = arith.addf %total_2, %13 : tensor<?xf32, #vk.axes<i>>
    vk.store %total_3 in %out[i] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<i>>
  }
}
