// RUN: vk-opt --lower-to-ttir %s | filecheck %s
// A product with one use in a sum is fused with it; not one that is used again, nor one that must be rounded.

vk.mapped @fuse(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>) facts {sizes = {N = 4}, multiples = {}, strides = {x = [1], out = [1]}} {
  %c1 = arith.constant 1 : i64
  vk.launch "fuse" over (%p = %c1) {
    %a = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<4xf32, #vk.axes<i>>
    %once = arith.mulf %a, %a : tensor<4xf32, #vk.axes<i>>
    %fused = arith.addf %once, %a : tensor<4xf32, #vk.axes<i>>
    %inner = arith.mulf %fused, %a : tensor<4xf32, #vk.axes<i>>
    %taken = arith.subf %a, %inner : tensor<4xf32, #vk.axes<i>>
    %again = arith.mulf %taken, %a : tensor<4xf32, #vk.axes<i>>
    %s = arith.addf %again, %a : tensor<4xf32, #vk.axes<i>>
    %t = arith.mulf %s, %again : tensor<4xf32, #vk.axes<i>>
    %exact = arith.mulf %t, %a {vk.rounded} : tensor<4xf32, #vk.axes<i>>
    %u = arith.addf %exact, %a : tensor<4xf32, #vk.axes<i>>
    %r = arith.mulf %u, %a : tensor<4xf32, #vk.axes<i>>
    %w = arith.addf %r, %a {vk.rounded} : tensor<4xf32, #vk.axes<i>>
    vk.store %w in %out[i] : !vk.tensor<[N], f32> <- tensor<4xf32, #vk.axes<i>>
  }
}

// CHECK:      %fused = math.fma %a, %a, %a : tensor<4xf32>
// CHECK:      [[MINUS:%[0-9]+]] = arith.subf %{{.*}}, %fused : tensor<4xf32>
// CHECK-NEXT: %taken = math.fma [[MINUS]], %a, %a : tensor<4xf32>
// CHECK-NEXT: %again = arith.mulf %taken, %a : tensor<4xf32>
// CHECK-NEXT: %s = arith.addf %again, %a : tensor<4xf32>
// CHECK-NEXT: %t = arith.mulf %s, %again : tensor<4xf32>
// CHECK-NEXT: %exact = arith.mulf %t, %a : tensor<4xf32>
// CHECK-NEXT: %u = arith.addf %exact, %a : tensor<4xf32>
// CHECK-NEXT: %r = arith.mulf %u, %a : tensor<4xf32>
// CHECK-NEXT: %w = arith.addf %r, %a : tensor<4xf32>
