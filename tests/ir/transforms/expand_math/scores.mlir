// RUN: vk-opt '--expand-math{approximates=true}' %s | filecheck %s
// Exponentials of sums of products above a level that has fewer elements: the level is multiplied by log2(e) and a
// scale once, and each element takes one fused operation. What is loaded is not rounded, and is subtracted first.

vk.mapped @f(%q: !vk.tensor<[M, D], f32>, %k: !vk.tensor<[N, D], f32>, %level: !vk.tensor<[M], f32>, %wide: f64, %out: !vk.tensor<[M, N], f32>) {
  %one = arith.constant 1 : i64
  vk.launch "f" over (%p = %one) {
    %a = vk.load %q[i, d] : !vk.tensor<[M, D], f32> -> tensor<4x8xf32, #vk.axes<i, d>>
    %b = vk.load %k[j, d] : !vk.tensor<[N, D], f32> -> tensor<16x8xf32, #vk.axes<j, d>>
    %y = vk.load %level[i] : !vk.tensor<[M], f32> -> tensor<4xf32, #vk.axes<i>>
    %none = arith.constant dense<0.0> : tensor<4x16xf32, #vk.axes<i, j>>
    %x = vk.dot %a, %b, %none along d precision ieee : tensor<4x8xf32, #vk.axes<i, d>>, tensor<16x8xf32, #vk.axes<j, d>>, tensor<4x16xf32, #vk.axes<i, j>>
    %yb = vk.broadcast %y : tensor<4xf32, #vk.axes<i>> -> tensor<4x16xf32, #vk.axes<i, j>>
    %d = arith.subf %x, %yb : tensor<4x16xf32, #vk.axes<i, j>>
    %e = math.exp %d fastmath<afn> : tensor<4x16xf32, #vk.axes<i, j>>
    %yc = vk.broadcast %y : tensor<4xf32, #vk.axes<i>> -> tensor<4x16xf32, #vk.axes<i, j>>
    %g = arith.subf %x, %yc : tensor<4x16xf32, #vk.axes<i, j>>
    %scale = arith.truncf %wide : f64 to f32
    %sb = vk.broadcast %scale : f32 -> tensor<4x16xf32, #vk.axes<i, j>>
    %h = arith.mulf %g, %sb : tensor<4x16xf32, #vk.axes<i, j>>
    %f = math.exp %h fastmath<afn> : tensor<4x16xf32, #vk.axes<i, j>>
    %sum = arith.addf %e, %f : tensor<4x16xf32, #vk.axes<i, j>>
    vk.store %sum in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<4x16xf32, #vk.axes<i, j>>
    %z = arith.subf %sum, %yc : tensor<4x16xf32, #vk.axes<i, j>>
    %w = math.exp %z fastmath<afn> : tensor<4x16xf32, #vk.axes<i, j>>
    vk.store %w in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<4x16xf32, #vk.axes<i, j>>
  }
}

// CHECK:      %[[SHIFT:[0-9]+]] = arith.mulf %y, %{{[0-9]+}} {vk.rounded} : tensor<4xf32
// CHECK-NEXT: %[[EACH:[0-9]+]] = vk.broadcast %[[SHIFT]]
// CHECK-NEXT: %[[POWER:[0-9]+]] = math.fma %x, %{{[0-9]+}}, %[[EACH]]
// CHECK-NEXT: %e = math.exp2 %[[POWER]] fastmath<afn>
// CHECK:      %[[BY:[0-9]+]] = arith.mulf %scale, %{{[0-9]+}} {vk.rounded} : f32
// CHECK:      arith.mulf %y, %{{[0-9]+}} {vk.rounded} : tensor<4xf32
// CHECK:      %[[OTHER:[0-9]+]] = math.fma %x
// CHECK-NEXT: %f = math.exp2 %[[OTHER]] fastmath<afn>
// CHECK:      %z = arith.subf %sum, %yc
// CHECK:      arith.mulf %z
