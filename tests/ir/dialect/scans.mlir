// RUN: vk-opt %s | filecheck %s
// RUN: vk-opt %s | vk-opt | filecheck %s
// RUN: vk-opt %s --print-op-generic | vk-opt | filecheck %s
// A scan combines tuples of scalars, one of each tile, by a body of its own. The last element along an axis lacks it.

vk.mapped @pairs(%x: !vk.tensor<[N], f32>) {
  vk.launch "all" over () {
    // CHECK:      %a = vk.load %x[n] : !vk.tensor<[N], f32> -> tensor<4x8xf32, #vk.axes<n, i>>
    // CHECK:      %h, %s = vk.scan_by %a, %b along n : tensor<4x8xf32, #vk.axes<n, i>>, tensor<4x8xi32, #vk.axes<n, i>> -> tensor<4x8xf32, #vk.axes<n, i>>, tensor<4x8xi32, #vk.axes<n, i>> by {
    // CHECK-NEXT: ^bb0(%p: f32, %q: i32, %v: f32, %w: i32):
    // CHECK-NEXT:   %sum = arith.addf %p, %v : f32
    // CHECK-NEXT:   %most = arith.maxsi %q, %w : i32
    // CHECK-NEXT:   vk.combined %sum, %most : f32, i32
    // CHECK:      %last = vk.last %h along n : tensor<4x8xf32, #vk.axes<n, i>> -> tensor<8xf32, #vk.axes<i>>
    %a = vk.load %x[n] : !vk.tensor<[N], f32> -> tensor<4x8xf32, #vk.axes<n, i>>
    %b = arith.constant dense<2> : tensor<4x8xi32, #vk.axes<n, i>>
    %h, %s = vk.scan_by %a, %b along n : tensor<4x8xf32, #vk.axes<n, i>>, tensor<4x8xi32, #vk.axes<n, i>> -> tensor<4x8xf32, #vk.axes<n, i>>, tensor<4x8xi32, #vk.axes<n, i>> by {
    ^bb0(%p: f32, %q: i32, %v: f32, %w: i32):
      %sum = arith.addf %p, %v : f32
      %most = arith.maxsi %q, %w : i32
      vk.combined %sum, %most : f32, i32
    }
    %last = vk.last %h along n : tensor<4x8xf32, #vk.axes<n, i>> -> tensor<8xf32, #vk.axes<i>>
  }
}
