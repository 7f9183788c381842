builtin.module {
  vk.kernel @shown(%x: !vk.tensor<[N], f32>, %count: !vk.tensor<[1], i64>) {
    %N = vk.size N
    vk.tile i < %N
    %0 = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    %1 = arith.constant 0 : i64
    %2 = vk.load %count[%1] : !vk.tensor<[1], i64> -> i64
    %3 = arith.constant 3 : i64
    vk.print "x is of" %0, %2, %3 : tensor<?xf32, #vk.axes<i>>, i64, i64
    %4 = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    %5 = arith.constant 0.000000e+00 : f32
    %6 = vk.broadcast %5 : f32 -> tensor<?xf32, #vk.axes<i>>
    %7 = arith.cmpf ogt, %4, %6 : tensor<?xf32, #vk.axes<i>>
    vk.assert %7, "x must be positive" : tensor<?xi1, #vk.axes<i>>
    %8 = vk.load %count[%1] : !vk.tensor<[1], i64> -> i64
    %9 = arith.cmpi sgt, %8, %1 : i64
    vk.assert %9, "" : i1
  }
}
