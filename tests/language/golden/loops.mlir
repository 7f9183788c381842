builtin.module {
  vk.kernel @loops(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M], f32>, %total: !vk.tensor<[1], f32>, %last: i64) {
    %M = vk.size M
    vk.tile i < %M
    %0 = arith.constant 0 : i64
    %N = vk.size N
    %1 = arith.constant 1 : i64
    %2 = arith.constant 0.000000e+00 : f32
    %3 = vk.broadcast %2 : f32 -> tensor<?xf32, #vk.axes<i>>
    %a, %b, %row = vk.range %k = %0 to %N carrying (%a_1 = %0 : i64, %b_1 = %1 : i64, %row_1 = %3 : tensor<?xf32, #vk.axes<i>>) {
      %b_2 = arith.addi %a_1, %b_1 : i64
      %4 = arith.constant 1 : i64
      %5 = arith.constant 3 : i64
      %row_2 = vk.range %q = %4 to %5 carrying (%row_3 = %row_1 : tensor<?xf32, #vk.axes<i>>) {
        %6 = vk.load %x[i, %k] : !vk.tensor<[M, N], f32> -> tensor<?xf32, #vk.axes<i>>
        %7 = arith.sitofp %q : i64 to f32
        %8 = vk.broadcast %7 : f32 -> tensor<?xf32, #vk.axes<i>>
        %9 = arith.mulf %6, %8 : tensor<?xf32, #vk.axes<i>>
        %row_4 = arith.addf %row_3, %9 : tensor<?xf32, #vk.axes<i>>
        vk.yield %row_4 : tensor<?xf32, #vk.axes<i>>
      }
      vk.yield %b_1, %b_2, %row_2 : i64, i64, tensor<?xf32, #vk.axes<i>>
    }
    %row_5 = vk.range %k_1 as "k" = %0 to %N carrying (%row_6 = %row : tensor<?xf32, #vk.axes<i>>) {
      %10 = vk.load %x[i, %k_1] : !vk.tensor<[M, N], f32> -> tensor<?xf32, #vk.axes<i>>
      %row_7 = arith.addf %row_6, %10 : tensor<?xf32, #vk.axes<i>>
      vk.yield %row_7 : tensor<?xf32, #vk.axes<i>>
    }
    %11 = arith.constant 2 : i64
    %row_8 = vk.range %k_2 as "k" = %11 to %last carrying (%row_9 = %row_5 : tensor<?xf32, #vk.axes<i>>) {
      %12 = vk.load %x[i, %k_2] guarding [1] : !vk.tensor<[M, N], f32> -> tensor<?xf32, #vk.axes<i>>
      %row_10 = arith.subf %row_9, %12 : tensor<?xf32, #vk.axes<i>>
      vk.yield %row_10 : tensor<?xf32, #vk.axes<i>>
    }
    %13 = arith.muli %a, %0 : i64
    %14 = arith.sitofp %13 : i64 to f32
    %15 = vk.broadcast %14 : f32 -> tensor<?xf32, #vk.axes<i>>
    %16 = arith.addf %row_8, %15 : tensor<?xf32, #vk.axes<i>>
    vk.store %16 in %out[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
    %17 = arith.sitofp %b : i64 to f32
    vk.store %17 in %total[%0] : !vk.tensor<[1], f32> <- f32
  }
}
