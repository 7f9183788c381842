builtin.module {
  vk.kernel @masked(%x: !vk.tensor<[N], f32>, %keep: !vk.tensor<[N], i1>, %out: !vk.tensor<[N], f32>, %any_: !vk.tensor<[1], i1>) {
    %N = vk.size N
    vk.tile i < %N
    %0 = vk.load %keep[i] : !vk.tensor<[N], i1> -> tensor<?xi1, #vk.axes<i>>
    %value = vk.load %x[i] where %0 : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    %1 = arith.constant 1.000000e+00 : f32
    %2 = vk.broadcast %1 : f32 -> tensor<?xf32, #vk.axes<i>>
    %3 = arith.addf %value, %2 : tensor<?xf32, #vk.axes<i>>
    %4 = vk.load %keep[i] : !vk.tensor<[N], i1> -> tensor<?xi1, #vk.axes<i>>
    %5 = arith.constant true
    %6 = vk.broadcast %5 : i1 -> tensor<?xi1, #vk.axes<i>>
    %7 = arith.xori %4, %6 : tensor<?xi1, #vk.axes<i>>
    %8 = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    %9 = arith.constant 2.000000e+00 : f32
    %10 = vk.broadcast %9 : f32 -> tensor<?xf32, #vk.axes<i>>
    %11 = arith.cmpf ogt, %8, %10 : tensor<?xf32, #vk.axes<i>>
    %12 = arith.ori %7, %11 : tensor<?xi1, #vk.axes<i>>
    vk.store %3 in %out[i] where %12 : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<i>>
    vk.whole j < %N
    %13 = vk.load %keep[j] : !vk.tensor<[N], i1> -> tensor<?xi1, #vk.axes<j>>
    %14 = vk.broadcast %5 : i1 -> tensor<?xi1, #vk.axes<j>>
    %15 = arith.xori %13, %14 : tensor<?xi1, #vk.axes<j>>
    %16 = arith.extui %15 : tensor<?xi1, #vk.axes<j>> to tensor<?xi32, #vk.axes<j>>
    %17 = vk.min %16 along j : tensor<?xi32, #vk.axes<j>> -> i32
    %18 = arith.constant 0 : i32
    %19 = arith.cmpi ne, %17, %18 : i32
    %20 = arith.xori %19, %5 : i1
    %21 = vk.load %x[j] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<j>>
    %22 = arith.constant 0.000000e+00 : f32
    %23 = vk.broadcast %22 : f32 -> tensor<?xf32, #vk.axes<j>>
    %24 = arith.cmpf ogt, %21, %23 : tensor<?xf32, #vk.axes<j>>
    %25 = arith.extui %24 : tensor<?xi1, #vk.axes<j>> to tensor<?xi32, #vk.axes<j>>
    %26 = vk.min %25 along j : tensor<?xi32, #vk.axes<j>> -> i32
    %27 = arith.cmpi ne, %26, %18 : i32
    %28 = arith.andi %20, %27 : i1
    %29 = arith.constant 0 : i64
    vk.store %28 in %any_[%29] : !vk.tensor<[1], i1> <- i1
  }
}
