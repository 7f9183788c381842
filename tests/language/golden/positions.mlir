builtin.module {
  vk.kernel @positions(%halves: !vk.tensor<[M, N], f32>, %place: !vk.tensor<[M, N], i64>) {
    %M = vk.size M
    vk.tile i < %M
    %N = vk.size N
    vk.whole j < %N
    %0 = arith.constant 0 : i64
    %1 = vk.broadcast %0 : i64 -> tensor<?x?xi64, #vk.axes<i, j>>
    %2 = vk.position i : tensor<?xi64, #vk.axes<i>>
    %3 = vk.position j : tensor<?xi64, #vk.axes<j>>
    %4 = arith.constant 2 : i64
    %5 = vk.broadcast %4 : i64 -> tensor<?xi64, #vk.axes<j>>
    %6 = arith.muli %3, %5 : tensor<?xi64, #vk.axes<j>>
    %7 = vk.broadcast %2 : tensor<?xi64, #vk.axes<i>> -> tensor<?x?xi64, #vk.axes<i, j>>
    %8 = vk.broadcast %6 : tensor<?xi64, #vk.axes<j>> -> tensor<?x?xi64, #vk.axes<i, j>>
    %9 = arith.addi %7, %8 : tensor<?x?xi64, #vk.axes<i, j>>
    %10 = arith.sitofp %9 : tensor<?x?xi64, #vk.axes<i, j>> to tensor<?x?xf32, #vk.axes<i, j>>
    %11 = arith.constant 2.000000e+00 : f32
    %12 = vk.broadcast %11 : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
    %13 = arith.divf %10, %12 : tensor<?x?xf32, #vk.axes<i, j>>
    %14 = arith.sitofp %1 : tensor<?x?xi64, #vk.axes<i, j>> to tensor<?x?xf32, #vk.axes<i, j>>
    %15 = arith.addf %14, %13 : tensor<?x?xf32, #vk.axes<i, j>>
    vk.store %15 in %halves[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
    %16 = vk.position j : tensor<?xi64, #vk.axes<j>>
    %17 = arith.trunci %16 : tensor<?xi64, #vk.axes<j>> to tensor<?xi8, #vk.axes<j>>
    %18 = vk.broadcast %0 : i64 -> tensor<?x?xi64, #vk.axes<i, j>>
    %19 = arith.extsi %17 : tensor<?xi8, #vk.axes<j>> to tensor<?xi64, #vk.axes<j>>
    %20 = vk.broadcast %19 : tensor<?xi64, #vk.axes<j>> -> tensor<?x?xi64, #vk.axes<i, j>>
    %21 = arith.addi %20, %18 : tensor<?x?xi64, #vk.axes<i, j>>
    vk.store %21 in %place[i, j] : !vk.tensor<[M, N], i64> <- tensor<?x?xi64, #vk.axes<i, j>>
  }
}
