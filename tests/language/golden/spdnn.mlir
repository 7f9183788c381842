builtin.module {
  vk.kernel @spdnn(%y: !vk.tensor<[N, P], f32>, %live: !vk.tensor<[I], i64>, %column: !vk.tensor<[L, N, K], i16>, %weight: !vk.tensor<[L, N, K], f32>, %bias: f64, %out: !vk.tensor<[N, I], f32>, %peak: !vk.tensor<[I], f32>) {
    %I = vk.size I
    vk.tile i < %I
    %N = vk.size N
    vk.whole n < %N
    %features = vk.scratch "features" : !vk.scratch<[n, i], f32>
    %0 = vk.load %live[i] : !vk.tensor<[I], i64> -> tensor<?xi64, #vk.axes<i>>
    %1 = vk.gather %y[n, %0] : !vk.tensor<[N, P], f32>, (tensor<?xi64, #vk.axes<i>>) -> tensor<?x?xf32, #vk.axes<n, i>>
    vk.store %1 in %features[n, i] : !vk.scratch<[n, i], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
    %2 = arith.constant 0 : i64
    %L = vk.size L
    %K = vk.size K
    vk.range %l = %2 to %L {
      %3 = arith.constant 0.000000e+00 : f32
      %total = vk.broadcast %3 : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
      %total_1 = vk.range %k = %2 to %K carrying (%total_2 = %total : tensor<?x?xf32, #vk.axes<n, i>>) {
        %4 = vk.load %weight[%l, n, %k] : !vk.tensor<[L, N, K], f32> -> tensor<?xf32, #vk.axes<n>>
        %5 = vk.load %column[%l, n, %k] : !vk.tensor<[L, N, K], i16> -> tensor<?xi16, #vk.axes<n>>
        %6 = vk.gather %features[%5, i] : !vk.scratch<[n, i], f32>, (tensor<?xi16, #vk.axes<n>>) -> tensor<?x?xf32, #vk.axes<n, i>>
        %7 = vk.broadcast %4 : tensor<?xf32, #vk.axes<n>> -> tensor<?x?xf32, #vk.axes<n, i>>
        %8 = arith.mulf %7, %6 : tensor<?x?xf32, #vk.axes<n, i>>
        %total_3 = arith.addf %total_2, %8 : tensor<?x?xf32, #vk.axes<n, i>>
        vk.yield %total_3 : tensor<?x?xf32, #vk.axes<n, i>>
      }
      vk.boundary
      %9 = arith.truncf %bias : f64 to f32
      %10 = vk.broadcast %9 : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
      %11 = arith.addf %total_1, %10 : tensor<?x?xf32, #vk.axes<n, i>>
      %12 = vk.broadcast %3 : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
      %13 = arith.maximumf %11, %12 : tensor<?x?xf32, #vk.axes<n, i>>
      %14 = arith.constant 3.200000e+01 : f32
      %15 = vk.broadcast %14 : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
      %16 = arith.minimumf %13, %15 : tensor<?x?xf32, #vk.axes<n, i>>
      vk.store %16 in %features[n, i] : !vk.scratch<[n, i], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
    }
    %last = vk.load %features[n, i] : !vk.scratch<[n, i], f32> -> tensor<?x?xf32, #vk.axes<n, i>>
    vk.store %last in %out[n, i] : !vk.tensor<[N, I], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
    %17 = vk.max %last along n : tensor<?x?xf32, #vk.axes<n, i>> -> tensor<?xf32, #vk.axes<i>>
    vk.store %17 in %peak[i] : !vk.tensor<[I], f32> <- tensor<?xf32, #vk.axes<i>>
  }
}
