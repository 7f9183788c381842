// RUN: vk-opt %s | filecheck %s
// RUN: vk-opt %s | vk-opt | filecheck %s
// RUN: vk-opt %s --print-op-generic | vk-opt | filecheck %s
// Tiles of one type are joined along their last axis. A load repeats elements along axes that its index does not name.

vk.mapped @two(%x: !vk.tensor<[N], f32>) {
  vk.launch "all" over () {
    // CHECK:      %a = vk.load %x[n] : !vk.tensor<[N], f32> -> tensor<4x8xf32, #vk.axes<n, i>>
    // CHECK:      %all = vk.interleave %a, %b along i : tensor<4x8xf32, #vk.axes<n, i>>, tensor<4x8xf32, #vk.axes<n, i>> -> tensor<4x16xf32, #vk.axes<n, i>>
    %a = vk.load %x[n] : !vk.tensor<[N], f32> -> tensor<4x8xf32, #vk.axes<n, i>>
    %b = arith.constant dense<2.0> : tensor<4x8xf32, #vk.axes<n, i>>
    %all = vk.interleave %a, %b along i : tensor<4x8xf32, #vk.axes<n, i>>, tensor<4x8xf32, #vk.axes<n, i>> -> tensor<4x16xf32, #vk.axes<n, i>>
  }
}
