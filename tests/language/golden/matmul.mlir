builtin.module {
  vk.kernel @matmul_bias(%a: !vk.tensor<[M, K], f32>, %b: !vk.tensor<[K, N], f32>, %bias: !vk.tensor<[N], f32>, %out: !vk.tensor<[M, N], f32>) {
    %M = vk.size M
    vk.tile i < %M
    %N = vk.size N
    vk.tile j < %N
    %K = vk.size K
    vk.whole k < %K
    %0 = vk.load %a[i, k] : !vk.tensor<[M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
    %1 = vk.load %b[k, j] : !vk.tensor<[K, N], f32> -> tensor<?x?xf32, #vk.axes<k, j>>
    %2 = arith.constant 0.000000e+00 : f32
    %3 = vk.broadcast %2 : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
    %product = vk.dot %0, %1, %3 along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<k, j>>, tensor<?x?xf32, #vk.axes<i, j>>
    %4 = vk.load %bias[j] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<j>>
    %5 = vk.broadcast %4 : tensor<?xf32, #vk.axes<j>> -> tensor<?x?xf32, #vk.axes<i, j>>
    %6 = arith.addf %product, %5 : tensor<?x?xf32, #vk.axes<i, j>>
    %7 = vk.broadcast %2 : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
    %8 = arith.maximumf %6, %7 : tensor<?x?xf32, #vk.axes<i, j>>
    vk.store %8 in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
  }
}
