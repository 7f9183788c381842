builtin.module {
  vk.kernel @products(%a: !vk.tensor<[B, M, K], f16>, %b: !vk.tensor<[B, K, N], bf16>, %out: !vk.tensor<[B, M, N], f32>, %inner: !vk.tensor<[B], f32>, %whole: !vk.tensor<[M, N], i64>) {
    %B = vk.size B
    vk.tile batch < %B
    %M = vk.size M
    vk.tile i < %M
    %N = vk.size N
    vk.tile j < %N
    %K = vk.size K
    vk.whole k < %K
    %0 = vk.load %a[batch, i, k] : !vk.tensor<[B, M, K], f16> -> tensor<?x?x?xf16, #vk.axes<batch, i, k>>
    %1 = arith.extf %0 : tensor<?x?x?xf16, #vk.axes<batch, i, k>> to tensor<?x?x?xf32, #vk.axes<batch, i, k>>
    %2 = vk.load %b[batch, k, j] : !vk.tensor<[B, K, N], bf16> -> tensor<?x?x?xbf16, #vk.axes<batch, k, j>>
    %3 = arith.extf %2 : tensor<?x?x?xbf16, #vk.axes<batch, k, j>> to tensor<?x?x?xf32, #vk.axes<batch, k, j>>
    %4 = arith.constant 0.000000e+00 : f32
    %5 = vk.broadcast %4 : f32 -> tensor<?x?x?xf32, #vk.axes<batch, i, j>>
    %total = vk.dot %1, %3, %5 along k precision ieee : tensor<?x?x?xf32, #vk.axes<batch, i, k>>, tensor<?x?x?xf32, #vk.axes<batch, k, j>>, tensor<?x?x?xf32, #vk.axes<batch, i, j>>
    %6 = vk.load %a[batch, i, k] : !vk.tensor<[B, M, K], f16> -> tensor<?x?x?xf16, #vk.axes<batch, i, k>>
    %7 = arith.extf %6 : tensor<?x?x?xf16, #vk.axes<batch, i, k>> to tensor<?x?x?xf32, #vk.axes<batch, i, k>>
    %8 = vk.load %b[batch, k, j] : !vk.tensor<[B, K, N], bf16> -> tensor<?x?x?xbf16, #vk.axes<batch, k, j>>
    %9 = arith.extf %8 : tensor<?x?x?xbf16, #vk.axes<batch, k, j>> to tensor<?x?x?xf32, #vk.axes<batch, k, j>>
    %total_1 = vk.dot %7, %9, %total along k precision tf32 : tensor<?x?x?xf32, #vk.axes<batch, i, k>>, tensor<?x?x?xf32, #vk.axes<batch, k, j>>, tensor<?x?x?xf32, #vk.axes<batch, i, j>>
    %10 = vk.load %a[batch, i, k] : !vk.tensor<[B, M, K], f16> -> tensor<?x?x?xf16, #vk.axes<batch, i, k>>
    %11 = arith.extf %10 : tensor<?x?x?xf16, #vk.axes<batch, i, k>> to tensor<?x?x?xf32, #vk.axes<batch, i, k>>
    %12 = vk.load %b[batch, k, j] : !vk.tensor<[B, K, N], bf16> -> tensor<?x?x?xbf16, #vk.axes<batch, k, j>>
    %13 = arith.extf %12 : tensor<?x?x?xbf16, #vk.axes<batch, k, j>> to tensor<?x?x?xf32, #vk.axes<batch, k, j>>
    %14 = arith.constant 1.000000e+00 : f32
    %15 = vk.broadcast %14 : f32 -> tensor<?x?x?xf32, #vk.axes<batch, i, j>>
    %16 = vk.dot %11, %13, %15 along k precision ieee : tensor<?x?x?xf32, #vk.axes<batch, i, k>>, tensor<?x?x?xf32, #vk.axes<batch, k, j>>, tensor<?x?x?xf32, #vk.axes<batch, i, j>>
    %17 = arith.addf %16, %total_1 : tensor<?x?x?xf32, #vk.axes<batch, i, j>>
    %18 = vk.broadcast %14 : f32 -> tensor<?x?x?xf32, #vk.axes<batch, i, j>>
    %19 = arith.subf %17, %18 : tensor<?x?x?xf32, #vk.axes<batch, i, j>>
    vk.store %19 in %out[batch, i, j] : !vk.tensor<[B, M, N], f32> <- tensor<?x?x?xf32, #vk.axes<batch, i, j>>
    %20 = arith.constant 0 : i64
    %21 = vk.load %a[batch, %20, k] guarding [1] : !vk.tensor<[B, M, K], f16> -> tensor<?x?xf16, #vk.axes<batch, k>>
    %22 = arith.extf %21 : tensor<?x?xf16, #vk.axes<batch, k>> to tensor<?x?xf32, #vk.axes<batch, k>>
    %23 = vk.load %a[batch, %20, k] guarding [1] : !vk.tensor<[B, M, K], f16> -> tensor<?x?xf16, #vk.axes<batch, k>>
    %24 = arith.extf %23 : tensor<?x?xf16, #vk.axes<batch, k>> to tensor<?x?xf32, #vk.axes<batch, k>>
    %25 = arith.constant 5.000000e-01 : f32
    %26 = vk.broadcast %25 : f32 -> tensor<?xf32, #vk.axes<batch>>
    %27 = vk.dot %22, %24, %26 along k precision ieee : tensor<?x?xf32, #vk.axes<batch, k>>, tensor<?x?xf32, #vk.axes<batch, k>>, tensor<?xf32, #vk.axes<batch>>
    vk.store %27 in %inner[batch] : !vk.tensor<[B], f32> <- tensor<?xf32, #vk.axes<batch>>
    %28 = vk.load %a[%20, i, k] guarding [0] : !vk.tensor<[B, M, K], f16> -> tensor<?x?xf16, #vk.axes<i, k>>
    %29 = arith.extf %28 : tensor<?x?xf16, #vk.axes<i, k>> to tensor<?x?xf32, #vk.axes<i, k>>
    %left = arith.fptosi %29 : tensor<?x?xf32, #vk.axes<i, k>> to tensor<?x?xi8, #vk.axes<i, k>>
    %30 = vk.load %b[%20, k, j] guarding [0] : !vk.tensor<[B, K, N], bf16> -> tensor<?x?xbf16, #vk.axes<k, j>>
    %31 = arith.extf %30 : tensor<?x?xbf16, #vk.axes<k, j>> to tensor<?x?xf32, #vk.axes<k, j>>
    %right = arith.fptosi %31 : tensor<?x?xf32, #vk.axes<k, j>> to tensor<?x?xi16, #vk.axes<k, j>>
    %32 = arith.extsi %left : tensor<?x?xi8, #vk.axes<i, k>> to tensor<?x?xi32, #vk.axes<i, k>>
    %33 = arith.extsi %right : tensor<?x?xi16, #vk.axes<k, j>> to tensor<?x?xi32, #vk.axes<k, j>>
    %34 = arith.constant 0 : i32
    %35 = vk.broadcast %34 : i32 -> tensor<?x?xi32, #vk.axes<i, j>>
    %product = vk.dot %32, %33, %35 along k precision ieee : tensor<?x?xi32, #vk.axes<i, k>>, tensor<?x?xi32, #vk.axes<k, j>>, tensor<?x?xi32, #vk.axes<i, j>>
    %36 = arith.extsi %product : tensor<?x?xi32, #vk.axes<i, j>> to tensor<?x?xi64, #vk.axes<i, j>>
    vk.store %36 in %whole[i, j] : !vk.tensor<[M, N], i64> <- tensor<?x?xi64, #vk.axes<i, j>>
  }
}
