// RUN: vk-opt %s | filecheck %s
// RUN: vk-opt %s | vk-opt | filecheck %s
// RUN: vk-opt %s --print-op-generic | vk-opt | filecheck %s
// Bytes are decoded as numbers; a scaled dot takes them, and its scales, as they are.

// CHECK-LABEL: vk.mapped @scaled
vk.mapped @scaled(%a: !vk.tensor<[64, 64], i8>, %s: !vk.tensor<[64, 4], i8>) {
  vk.launch "all" over () {
    // CHECK:      %low = vk.decode e2m1_low %x : tensor<64x64xi8, #vk.axes<i, k>> -> tensor<64x64xf32, #vk.axes<i, k>>
    // CHECK-NEXT: %factor = vk.decode e8m0 %u : tensor<64x4xi8, #vk.axes<i, g>> -> tensor<64x4xf32, #vk.axes<i, g>>
    // CHECK-NEXT: %all = vk.repeat %factor along g to k : tensor<64x4xf32, #vk.axes<i, g>> -> tensor<64x64xf32, #vk.axes<i, k>>
    // CHECK:      %d = vk.scaled_dot %x by %u, %y by %v, %c along k in g : tensor<64x64xi8, #vk.axes<i, k>>, tensor<64x4xi8, #vk.axes<i, g>>, tensor<64x64xi8, #vk.axes<j, k>>, tensor<64x4xi8, #vk.axes<j, g>>, tensor<64x64xf32, #vk.axes<i, j>>
    %x = vk.load %a[i, k] : !vk.tensor<[64, 64], i8> -> tensor<64x64xi8, #vk.axes<i, k>>
    %y = vk.load %a[j, k] : !vk.tensor<[64, 64], i8> -> tensor<64x64xi8, #vk.axes<j, k>>
    %u = vk.load %s[i, g] : !vk.tensor<[64, 4], i8> -> tensor<64x4xi8, #vk.axes<i, g>>
    %v = vk.load %s[j, g] : !vk.tensor<[64, 4], i8> -> tensor<64x4xi8, #vk.axes<j, g>>
    %low = vk.decode e2m1_low %x : tensor<64x64xi8, #vk.axes<i, k>> -> tensor<64x64xf32, #vk.axes<i, k>>
    %factor = vk.decode e8m0 %u : tensor<64x4xi8, #vk.axes<i, g>> -> tensor<64x4xf32, #vk.axes<i, g>>
    %all = vk.repeat %factor along g to k : tensor<64x4xf32, #vk.axes<i, g>> -> tensor<64x64xf32, #vk.axes<i, k>>
    %zero = arith.constant 0.0 : f32
    %c = vk.broadcast %zero : f32 -> tensor<64x64xf32, #vk.axes<i, j>>
    %d = vk.scaled_dot %x by %u, %y by %v, %c along k in g : tensor<64x64xi8, #vk.axes<i, k>>, tensor<64x4xi8, #vk.axes<i, g>>, tensor<64x64xi8, #vk.axes<j, k>>, tensor<64x4xi8, #vk.axes<j, g>>, tensor<64x64xf32, #vk.axes<i, j>>
  }
}
