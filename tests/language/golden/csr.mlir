builtin.module {
  vk.kernel @csr(%start: !vk.tensor<[R1], i64>, %column: !vk.tensor<[Z], i64>, %value: !vk.tensor<[Z], f32>, %x: !vk.tensor<[C], f32>, %out: !vk.tensor<[R], f32>) {
    %R = vk.size R
    vk.tile r < %R
    %0 = vk.load %start[r] guarding [0] : !vk.tensor<[R1], i64> -> tensor<?xi64, #vk.axes<r>>
    %1 = arith.constant 1 : i64
    %2 = vk.load %start[%1 + r] guarding [0] : !vk.tensor<[R1], i64> -> tensor<?xi64, #vk.axes<r>>
    %3 = arith.constant 0.000000e+00 : f32
    %4 = vk.broadcast %3 : f32 -> tensor<?xf32, #vk.axes<r>>
    %total = vk.range %e = %0 to %2 : tensor<?xi64, #vk.axes<r>> carrying (%total_1 = %4 : tensor<?xf32, #vk.axes<r>>) {
      %5 = vk.gather %value[%e] : !vk.tensor<[Z], f32>, (tensor<?xi64, #vk.axes<r>>) -> tensor<?xf32, #vk.axes<r>>
      %6 = vk.gather %column[%e] : !vk.tensor<[Z], i64>, (tensor<?xi64, #vk.axes<r>>) -> tensor<?xi64, #vk.axes<r>>
      %7 = vk.gather %x[%6] : !vk.tensor<[C], f32>, (tensor<?xi64, #vk.axes<r>>) -> tensor<?xf32, #vk.axes<r>>
      %8 = arith.mulf %5, %7 : tensor<?xf32, #vk.axes<r>>
      %total_2 = arith.addf %total_1, %8 : tensor<?xf32, #vk.axes<r>>
      vk.yield %total_2 : tensor<?xf32, #vk.axes<r>>
    }
    vk.store %total in %out[r] : !vk.tensor<[R], f32> <- tensor<?xf32, #vk.axes<r>>
  }
}
