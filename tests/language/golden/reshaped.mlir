builtin.module {
  vk.kernel @reshaped(%x: !vk.tensor<[M, 6], f32>, %out: !vk.tensor<[M, 2, 3], f32>, %y: !vk.tensor<[M, A, B], f32>) {
    %M = vk.size M
    vk.tile i < %M
    %0 = arith.constant 6 : i64
    vk.whole j < %0
    %1 = arith.constant 2 : i64
    vk.whole a < %1
    %2 = arith.constant 3 : i64
    vk.whole b < %2
    %3 = vk.load %x[i, j] : !vk.tensor<[M, 6], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
    %through = vk.scratch "through" : !vk.scratch<[i, j], f32>
    vk.store %3 in %through[i, j] : !vk.scratch<[i, j], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
    vk.boundary
    %grouped = vk.load %through[i, 3 * a + b] : !vk.scratch<[i, j], f32> -> tensor<?x?x?xf32, #vk.axes<i, a, b>>
    vk.store %grouped in %out[i, a, b] : !vk.tensor<[M, 2, 3], f32> <- tensor<?x?x?xf32, #vk.axes<i, a, b>>
    %A = vk.size A
    vk.whole c < %A
    %B = vk.size B
    vk.whole d < %B
    %through1 = vk.scratch "through1" : !vk.scratch<[i, a, b], f32>
    vk.store %grouped in %through1[i, a, b] : !vk.scratch<[i, a, b], f32> <- tensor<?x?x?xf32, #vk.axes<i, a, b>>
    vk.boundary
    %4 = vk.position c : tensor<?xi64, #vk.axes<c>>
    %5 = vk.broadcast %B : i64 -> tensor<?xi64, #vk.axes<c>>
    %6 = arith.muli %4, %5 : tensor<?xi64, #vk.axes<c>>
    %7 = vk.position d : tensor<?xi64, #vk.axes<d>>
    %8 = vk.broadcast %6 : tensor<?xi64, #vk.axes<c>> -> tensor<?x?xi64, #vk.axes<c, d>>
    %9 = vk.broadcast %7 : tensor<?xi64, #vk.axes<d>> -> tensor<?x?xi64, #vk.axes<c, d>>
    %10 = arith.addi %8, %9 : tensor<?x?xi64, #vk.axes<c, d>>
    %11 = vk.broadcast %2 : i64 -> tensor<?x?xi64, #vk.axes<c, d>>
    %12 = arith.remsi %10, %11 : tensor<?x?xi64, #vk.axes<c, d>>
    %13 = vk.broadcast %2 : i64 -> tensor<?x?xi64, #vk.axes<c, d>>
    %14 = arith.xori %12, %13 : tensor<?x?xi64, #vk.axes<c, d>>
    %15 = arith.constant 0 : i64
    %16 = vk.broadcast %15 : i64 -> tensor<?x?xi64, #vk.axes<c, d>>
    %17 = arith.cmpi ne, %12, %16 : tensor<?x?xi64, #vk.axes<c, d>>
    %18 = vk.broadcast %15 : i64 -> tensor<?x?xi64, #vk.axes<c, d>>
    %19 = arith.cmpi slt, %14, %18 : tensor<?x?xi64, #vk.axes<c, d>>
    %20 = arith.andi %17, %19 : tensor<?x?xi1, #vk.axes<c, d>>
    %21 = vk.broadcast %2 : i64 -> tensor<?x?xi64, #vk.axes<c, d>>
    %22 = arith.addi %12, %21 : tensor<?x?xi64, #vk.axes<c, d>>
    %23 = arith.select %20, %22, %12 : tensor<?x?xi1, #vk.axes<c, d>>, tensor<?x?xi64, #vk.axes<c, d>>
    %24 = vk.position d : tensor<?xi64, #vk.axes<d>>
    %25 = vk.broadcast %6 : tensor<?xi64, #vk.axes<c>> -> tensor<?x?xi64, #vk.axes<c, d>>
    %26 = vk.broadcast %24 : tensor<?xi64, #vk.axes<d>> -> tensor<?x?xi64, #vk.axes<c, d>>
    %27 = arith.addi %25, %26 : tensor<?x?xi64, #vk.axes<c, d>>
    %28 = vk.broadcast %2 : i64 -> tensor<?x?xi64, #vk.axes<c, d>>
    %29 = arith.floordivsi %27, %28 : tensor<?x?xi64, #vk.axes<c, d>>
    %30 = vk.gather %through1[i, %29, %23] : !vk.scratch<[i, a, b], f32>, (tensor<?x?xi64, #vk.axes<c, d>>, tensor<?x?xi64, #vk.axes<c, d>>) -> tensor<?x?x?xf32, #vk.axes<i, c, d>>
    vk.store %30 in %y[i, c, d] : !vk.tensor<[M, A, B], f32> <- tensor<?x?x?xf32, #vk.axes<i, c, d>>
  }
}
