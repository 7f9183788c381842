builtin.module {
  vk.kernel @spdnn(%y: !vk.tensor<[N, I], f32>, %column: !vk.tensor<[L, N, K], i16>, %weight: !vk.tensor<[L, N, K], f32>, %bias: f64, %out: !vk.tensor<[N, I], f32>, %peak: !vk.tensor<[I], f32>) {
    %I = vk.size I
    vk.tile i < %I
    %N = vk.size N
    vk.whole n < %N
    %features = vk.scratch "features" : !vk.scratch<[n, i], f32>
    %0 = vk.load %y[n, i] : !vk.tensor<[N, I], f32> -> tensor<?x?xf32, #vk.axes<n, i>>
    vk.store %0 in %features[n, i] : !vk.scratch<[n, i], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
    %1 = arith.constant 0 : i64
    %L = vk.size L
    %K = vk.size K
    vk.range %l = %1 to %L {
      %2 = arith.constant 0.000000e+00 : f32
      %total = vk.broadcast %2 : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
      %total_1 = vk.range %k = %1 to %K carrying (%total_2 = %total : tensor<?x?xf32, #vk.axes<n, i>>) {
        %3 = vk.load %weight[%l, n, %k] : !vk.tensor<[L, N, K], f32> -> tensor<?xf32, #vk.axes<n>>
        %4 = vk.load %column[%l, n, %k] : !vk.tensor<[L, N, K], i16> -> tensor<?xi16, #vk.axes<n>>
        %5 = vk.gather %features[%4, i] : !vk.scratch<[n, i], f32>, (tensor<?xi16, #vk.axes<n>>) -> tensor<?x?xf32, #vk.axes<n, i>>
        %6 = vk.broadcast %3 : tensor<?xf32, #vk.axes<n>> -> tensor<?x?xf32, #vk.axes<n, i>>
        %7 = arith.mulf %6, %5 : tensor<?x?xf32, #vk.axes<n, i>>
        %total_3 = arith.addf %total_2, %7 : tensor<?x?xf32, #vk.axes<n, i>>
        vk.yield %total_3 : tensor<?x?xf32, #vk.axes<n, i>>
      }
      vk.boundary
      %8 = arith.truncf %bias : f64 to f32
      %9 = vk.broadcast %8 : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
      %10 = arith.addf %total_1, %9 : tensor<?x?xf32, #vk.axes<n, i>>
      %11 = vk.broadcast %2 : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
      %12 = arith.maximumf %10, %11 : tensor<?x?xf32, #vk.axes<n, i>>
      %13 = arith.constant 3.200000e+01 : f32
      %14 = vk.broadcast %13 : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
      %15 = arith.minimumf %12, %14 : tensor<?x?xf32, #vk.axes<n, i>>
      vk.store %15 in %features[n, i] : !vk.scratch<[n, i], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
    }
    %last = vk.load %features[n, i] : !vk.scratch<[n, i], f32> -> tensor<?x?xf32, #vk.axes<n, i>>
    vk.store %last in %out[n, i] : !vk.tensor<[N, I], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
    %16 = vk.max %last along n : tensor<?x?xf32, #vk.axes<n, i>> -> tensor<?xf32, #vk.axes<i>>
    vk.store %16 in %peak[i] : !vk.tensor<[I], f32> <- tensor<?xf32, #vk.axes<i>>
  }
}
