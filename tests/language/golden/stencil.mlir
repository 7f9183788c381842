builtin.module {
  vk.kernel @stencil(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>, %far: !vk.tensor<[H], f32>) {
    %N = vk.size N
    vk.tile i < %N
    %0 = arith.constant -1 : i64
    %1 = vk.load %x[%0 + i] guarding [0] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    %2 = arith.constant 2.500000e-01 : f32
    %3 = vk.broadcast %2 : f32 -> tensor<?xf32, #vk.axes<i>>
    %4 = arith.mulf %3, %1 : tensor<?xf32, #vk.axes<i>>
    %5 = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    %6 = arith.constant 5.000000e-01 : f32
    %7 = vk.broadcast %6 : f32 -> tensor<?xf32, #vk.axes<i>>
    %8 = arith.mulf %7, %5 : tensor<?xf32, #vk.axes<i>>
    %9 = arith.addf %4, %8 : tensor<?xf32, #vk.axes<i>>
    %10 = arith.constant 1 : i64
    %11 = vk.load %x[%10 + i] guarding [0] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    %12 = vk.broadcast %2 : f32 -> tensor<?xf32, #vk.axes<i>>
    %13 = arith.mulf %12, %11 : tensor<?xf32, #vk.axes<i>>
    %14 = arith.addf %9, %13 : tensor<?xf32, #vk.axes<i>>
    vk.store %14 in %out[i] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<i>>
    %H = vk.size H
    vk.tile h < %H
    %15 = vk.load %x[%10 + 2 * h] guarding [0] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<h>>
    %16 = vk.load %x[h] guarding [0] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<h>>
    %17 = arith.subf %15, %16 : tensor<?xf32, #vk.axes<h>>
    vk.store %17 in %far[h] : !vk.tensor<[H], f32> <- tensor<?xf32, #vk.axes<h>>
  }
}
