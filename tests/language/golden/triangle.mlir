builtin.module {
  vk.kernel @triangle(%x: !vk.tensor<[N, N], f32>, %out: !vk.tensor<[N, N], f32>, %means: !vk.tensor<[3], f32>) {
    %N = vk.size N
    vk.tile i < %N
    vk.whole j < %N
    %0 = vk.position i : tensor<?xi64, #vk.axes<i>>
    %1 = vk.position j : tensor<?xi64, #vk.axes<j>>
    %2 = vk.broadcast %0 : tensor<?xi64, #vk.axes<i>> -> tensor<?x?xi64, #vk.axes<i, j>>
    %3 = vk.broadcast %1 : tensor<?xi64, #vk.axes<j>> -> tensor<?x?xi64, #vk.axes<i, j>>
    %4 = arith.cmpi slt, %2, %3 : tensor<?x?xi64, #vk.axes<i, j>>
    %5 = vk.load %x[i, j] : !vk.tensor<[N, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
    %6 = arith.constant 0.000000e+00 : f32
    %7 = vk.broadcast %6 : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
    %value = arith.select %4, %5, %7 : tensor<?x?xi1, #vk.axes<i, j>>, tensor<?x?xf32, #vk.axes<i, j>>
    %turned = vk.broadcast %value : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?x?xf32, #vk.axes<j, i>>
    %8 = vk.load %x[i, i] : !vk.tensor<[N, N], f32> -> tensor<?xf32, #vk.axes<i>>
    %9 = vk.broadcast %8 : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<j, i>>
    %10 = vk.position i : tensor<?xi64, #vk.axes<i>>
    %11 = vk.position j : tensor<?xi64, #vk.axes<j>>
    %12 = vk.broadcast %10 : tensor<?xi64, #vk.axes<i>> -> tensor<?x?xi64, #vk.axes<i, j>>
    %13 = vk.broadcast %11 : tensor<?xi64, #vk.axes<j>> -> tensor<?x?xi64, #vk.axes<i, j>>
    %14 = arith.cmpi eq, %12, %13 : tensor<?x?xi64, #vk.axes<i, j>>
    %15 = arith.uitofp %14 : tensor<?x?xi1, #vk.axes<i, j>> to tensor<?x?xf32, #vk.axes<i, j>>
    %16 = vk.broadcast %15 : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?x?xf32, #vk.axes<j, i>>
    %17 = arith.mulf %9, %16 : tensor<?x?xf32, #vk.axes<j, i>>
    %18 = arith.addf %turned, %17 : tensor<?x?xf32, #vk.axes<j, i>>
    %19 = arith.constant 0 : i64
    %20 = arith.sitofp %19 : i64 to f32
    %21 = vk.broadcast %20 : f32 -> tensor<?x?xf32, #vk.axes<j, i>>
    %22 = arith.subf %18, %21 : tensor<?x?xf32, #vk.axes<j, i>>
    %23 = vk.broadcast %20 : f32 -> tensor<?x?xf32, #vk.axes<j, i>>
    %24 = arith.addf %22, %23 : tensor<?x?xf32, #vk.axes<j, i>>
    %25 = vk.broadcast %24 : tensor<?x?xf32, #vk.axes<j, i>> -> tensor<?x?xf32, #vk.axes<i, j>>
    vk.store %25 in %out[i, j] : !vk.tensor<[N, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
    vk.whole p < %N
    vk.whole q < %N
    %26 = vk.load %x[p, q] : !vk.tensor<[N, N], f32> -> tensor<?x?xf32, #vk.axes<p, q>>
    %27 = arith.muli %N, %N : i64
    %28 = vk.sum %26 along p : tensor<?x?xf32, #vk.axes<p, q>> -> tensor<?xf32, #vk.axes<q>>
    %29 = vk.sum %28 along q : tensor<?xf32, #vk.axes<q>> -> f32
    %30 = arith.sitofp %27 : i64 to f32
    %31 = arith.divf %29, %30 : f32
    vk.store %31 in %means[%19] : !vk.tensor<[3], f32> <- f32
    %32 = vk.load %x[p, q] : !vk.tensor<[N, N], f32> -> tensor<?x?xf32, #vk.axes<p, q>>
    %33 = vk.max %32 along p : tensor<?x?xf32, #vk.axes<p, q>> -> tensor<?xf32, #vk.axes<q>>
    %34 = vk.sum %33 along q : tensor<?xf32, #vk.axes<q>> -> f32
    %35 = arith.constant 1 : i64
    vk.store %34 in %means[%35] : !vk.tensor<[3], f32> <- f32
    %36 = arith.addi %N, %N : i64
    %37 = arith.addi %36, %N : i64
    %38 = arith.constant 2 : i64
    %39 = arith.addi %37, %38 : i64
    %40 = arith.addi %39, %19 : i64
    %41 = arith.addi %40, %38 : i64
    %42 = arith.sitofp %41 : i64 to f32
    vk.store %42 in %means[%38] : !vk.tensor<[3], f32> <- f32
  }
}
