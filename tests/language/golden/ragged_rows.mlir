builtin.module {
  vk.kernel @ragged_rows(%start: !vk.tensor<[R], i64>, %x: !vk.tensor<[Z], f32>, %out: !vk.tensor<[R, 4], f32>) {
    %R = vk.size R
    vk.tile r < %R
    %0 = arith.constant 4 : i64
    vk.whole j < %0
    %1 = vk.load %start[r] : !vk.tensor<[R], i64> -> tensor<?xi64, #vk.axes<r>>
    %2 = vk.gather %x[%1 + j] guarding [0] : !vk.tensor<[Z], f32>, (tensor<?xi64, #vk.axes<r>>) -> tensor<?x?xf32, #vk.axes<r, j>>
    %3 = vk.load %start[r] : !vk.tensor<[R], i64> -> tensor<?xi64, #vk.axes<r>>
    %4 = arith.constant 1 : i64
    %5 = vk.broadcast %4 : i64 -> tensor<?xi64, #vk.axes<r>>
    %6 = arith.addi %3, %5 : tensor<?xi64, #vk.axes<r>>
    %7 = vk.gather %x[%6 + j] guarding [0] : !vk.tensor<[Z], f32>, (tensor<?xi64, #vk.axes<r>>) -> tensor<?x?xf32, #vk.axes<r, j>>
    %8 = arith.addf %2, %7 : tensor<?x?xf32, #vk.axes<r, j>>
    vk.store %8 in %out[r, j] : !vk.tensor<[R, 4], f32> <- tensor<?x?xf32, #vk.axes<r, j>>
  }
}
