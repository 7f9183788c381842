builtin.module {
  vk.kernel @histogram(%group: !vk.tensor<[N], i64>, %x: !vk.tensor<[N], f32>, %total: !vk.tensor<[G], f32>, %high: !vk.tensor<[G], i64>, %low: !vk.tensor<[G], i64>) {
    %N = vk.size N
    vk.tile i < %N
    %0 = vk.load %group[i] : !vk.tensor<[N], i64> -> tensor<?xi64, #vk.axes<i>>
    %1 = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
    vk.scatter %1 atomic add in %total[%0] : !vk.tensor<[G], f32>, (tensor<?xi64, #vk.axes<i>>) <- tensor<?xf32, #vk.axes<i>>
    %2 = vk.load %group[i] : !vk.tensor<[N], i64> -> tensor<?xi64, #vk.axes<i>>
    %3 = vk.position i : tensor<?xi64, #vk.axes<i>>
    vk.scatter %3 atomic max in %high[%2] : !vk.tensor<[G], i64>, (tensor<?xi64, #vk.axes<i>>) <- tensor<?xi64, #vk.axes<i>>
    %4 = vk.load %group[i] : !vk.tensor<[N], i64> -> tensor<?xi64, #vk.axes<i>>
    %5 = vk.position i : tensor<?xi64, #vk.axes<i>>
    vk.scatter %5 atomic min in %low[%4] : !vk.tensor<[G], i64>, (tensor<?xi64, #vk.axes<i>>) <- tensor<?xi64, #vk.axes<i>>
  }
}
