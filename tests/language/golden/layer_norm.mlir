builtin.module {
  vk.kernel @layer_norm_rows(%x: !vk.tensor<[M, N], bf16>, %weight: !vk.tensor<[N], f32>, %bias: !vk.tensor<[N], f32>, %eps: f64, %out: !vk.tensor<[M, N], f32>) {
    %M = vk.size M
    vk.tile i < %M
    %N = vk.size N
    vk.whole j < %N
    %0 = vk.load %x[i, j] : !vk.tensor<[M, N], bf16> -> tensor<?x?xbf16, #vk.axes<i, j>>
    %row = arith.extf %0 : tensor<?x?xbf16, #vk.axes<i, j>> to tensor<?x?xf32, #vk.axes<i, j>>
    %1 = vk.sum %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
    %2 = arith.sitofp %N : i64 to f32
    %3 = vk.broadcast %2 : f32 -> tensor<?xf32, #vk.axes<i>>
    %4 = arith.divf %1, %3 : tensor<?xf32, #vk.axes<i>>
    %5 = vk.broadcast %4 : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
    %centred = arith.subf %row, %5 : tensor<?x?xf32, #vk.axes<i, j>>
    %6 = arith.mulf %centred, %centred : tensor<?x?xf32, #vk.axes<i, j>>
    %7 = vk.sum %6 along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
    %8 = vk.broadcast %2 : f32 -> tensor<?xf32, #vk.axes<i>>
    %variance = arith.divf %7, %8 : tensor<?xf32, #vk.axes<i>>
    %9 = arith.truncf %eps : f64 to f32
    %10 = vk.broadcast %9 : f32 -> tensor<?xf32, #vk.axes<i>>
    %11 = arith.addf %variance, %10 : tensor<?xf32, #vk.axes<i>>
    %12 = math.rsqrt %11 : tensor<?xf32, #vk.axes<i>>
    %13 = vk.broadcast %12 : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
    %14 = arith.mulf %centred, %13 : tensor<?x?xf32, #vk.axes<i, j>>
    %15 = vk.load %weight[j] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<j>>
    %16 = vk.broadcast %15 : tensor<?xf32, #vk.axes<j>> -> tensor<?x?xf32, #vk.axes<i, j>>
    %17 = arith.mulf %14, %16 : tensor<?x?xf32, #vk.axes<i, j>>
    %18 = vk.load %bias[j] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<j>>
    %19 = vk.broadcast %18 : tensor<?xf32, #vk.axes<j>> -> tensor<?x?xf32, #vk.axes<i, j>>
    %20 = arith.addf %17, %19 : tensor<?x?xf32, #vk.axes<i, j>>
    vk.store %20 in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
  }
}
