builtin.module {
  vk.kernel @unsigned(%x: !vk.tensor<[M, N], i8>, %index: !vk.tensor<[M], i16>, %far: !vk.tensor<[M], i64>, %scale: !vk.tensor<[M], f32>, %out: !vk.tensor<[M, N], i8>, %best: !vk.tensor<[M], i8>, %total: !vk.tensor<[4], i32>, %row: !vk.tensor<[M, N], i8>) {
    %M = vk.size M
    vk.tile i < %M
    %N = vk.size N
    vk.whole j < %N
    %value = vk.load %x[i, j] : !vk.tensor<[M, N], i8> -> tensor<?x?xi8, #vk.axes<i, j>>
    %0 = arith.constant 3 : i8
    %1 = vk.broadcast %0 : i8 -> tensor<?x?xi8, #vk.axes<i, j>>
    %2 = arith.divui %value, %1 : tensor<?x?xi8, #vk.axes<i, j>>
    %3 = arith.constant -56 : i8
    %4 = vk.broadcast %3 : i8 -> tensor<?x?xi8, #vk.axes<i, j>>
    %5 = arith.remui %value, %4 : tensor<?x?xi8, #vk.axes<i, j>>
    %6 = arith.addi %2, %5 : tensor<?x?xi8, #vk.axes<i, j>>
    %7 = arith.constant 1 : i8
    %8 = vk.broadcast %7 : i8 -> tensor<?x?xi8, #vk.axes<i, j>>
    %9 = arith.shrui %6, %8 : tensor<?x?xi8, #vk.axes<i, j>>
    %10 = arith.constant -1 : i8
    %11 = vk.broadcast %10 : i8 -> tensor<?x?xi8, #vk.axes<i, j>>
    %12 = arith.xori %value, %11 : tensor<?x?xi8, #vk.axes<i, j>>
    %part = arith.xori %9, %12 : tensor<?x?xi8, #vk.axes<i, j>>
    %13 = arith.constant -128 : i8
    %14 = vk.broadcast %13 : i8 -> tensor<?x?xi8, #vk.axes<i, j>>
    %15 = arith.cmpi ugt, %value, %14 : tensor<?x?xi8, #vk.axes<i, j>>
    %16 = vk.broadcast %10 : i8 -> tensor<?x?xi8, #vk.axes<i, j>>
    %17 = arith.subi %16, %value : tensor<?x?xi8, #vk.axes<i, j>>
    %bright = arith.select %15, %17, %part : tensor<?x?xi1, #vk.axes<i, j>>, tensor<?x?xi8, #vk.axes<i, j>>
    %18 = arith.uitofp %bright : tensor<?x?xi8, #vk.axes<i, j>> to tensor<?x?xf32, #vk.axes<i, j>>
    %19 = vk.load %scale[i] : !vk.tensor<[M], f32> -> tensor<?xf32, #vk.axes<i>>
    %20 = vk.broadcast %19 : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
    %21 = arith.mulf %18, %20 : tensor<?x?xf32, #vk.axes<i, j>>
    %22 = arith.fptoui %21 : tensor<?x?xf32, #vk.axes<i, j>> to tensor<?x?xi8, #vk.axes<i, j>>
    vk.store %22 in %out[i, j] : !vk.tensor<[M, N], i8> <- tensor<?x?xi8, #vk.axes<i, j>>
    %23 = arith.minui %value, %bright : tensor<?x?xi8, #vk.axes<i, j>>
    %24 = vk.maxui %23 along j : tensor<?x?xi8, #vk.axes<i, j>> -> tensor<?xi8, #vk.axes<i>>
    vk.store %24 in %best[i] : !vk.tensor<[M], i8> <- tensor<?xi8, #vk.axes<i>>
    %25 = vk.load %index[i] : !vk.tensor<[M], i16> -> tensor<?xi16, #vk.axes<i>>
    %26 = vk.load %best[i] : !vk.tensor<[M], i8> -> tensor<?xi8, #vk.axes<i>>
    %27 = arith.extui %26 : tensor<?xi8, #vk.axes<i>> to tensor<?xi32, #vk.axes<i>>
    %28 = arith.constant 2 : i32
    %29 = vk.broadcast %28 : i32 -> tensor<?xi32, #vk.axes<i>>
    %30 = arith.muli %27, %29 : tensor<?xi32, #vk.axes<i>>
    %31 = arith.extui %25 : tensor<?xi16, #vk.axes<i>> to tensor<?xi32, #vk.axes<i>>
    vk.scatter %30 atomic maxui in %total[%31] : !vk.tensor<[4], i32>, (tensor<?xi32, #vk.axes<i>>) <- tensor<?xi32, #vk.axes<i>>
    %32 = vk.load %far[i] : !vk.tensor<[M], i64> -> tensor<?xi64, #vk.axes<i>>
    %33 = arith.constant 9223372036854775807 : i64
    %34 = vk.broadcast %33 : i64 -> tensor<?xi64, #vk.axes<i>>
    %35 = arith.minui %32, %34 : tensor<?xi64, #vk.axes<i>>
    %36 = vk.gather %x[%35, j] : !vk.tensor<[M, N], i8>, (tensor<?xi64, #vk.axes<i>>) -> tensor<?x?xi8, #vk.axes<i, j>>
    %37 = vk.scan minui %value along j : tensor<?x?xi8, #vk.axes<i, j>>
    %38 = arith.addi %36, %37 : tensor<?x?xi8, #vk.axes<i, j>>
    vk.store %38 in %row[i, j] : !vk.tensor<[M, N], i8> <- tensor<?x?xi8, #vk.axes<i, j>>
  }
}
