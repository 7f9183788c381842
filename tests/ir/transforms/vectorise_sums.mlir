// RUN: vk-opt '--vectorise-sums{threads=32}' --verify-mapped %s | filecheck %s
// A thread adds four neighbouring images and four connections at once: one load of columns and weights serves 16
// elements. Connections that are left are added one by one.

vk.mapped @layer(%column: !vk.tensor<[N, K], i32>, %weight: !vk.tensor<[N, K], f32>, %out: !vk.tensor<[N, I], f32>) lanes i facts {sizes = {}, multiples = {}, strides = {column = [-1, 1], weight = [-1, 1], out = [-1, 1]}, distinct} {
  %K = vk.size K
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  vk.launch "layer" over (%p = %c1) {
    %features = vk.scratch "features" : !vk.scratch<[16, 8], f32>
    %bias = arith.constant dense<1.0> : tensor<16x8xf32, #vk.axes<n, i>>
    // CHECK:      %[[BLOCKS:.*]] = arith.divsi %{{.*}}, %{{.*}} : i64
    // CHECK-NEXT: %[[DONE:.*]] = arith.muli %[[BLOCKS]]
    // CHECK-NEXT: %[[END:.*]] = arith.addi %c0, %[[DONE]] : i64
    // CHECK:      %[[SUMS:.*]] = scf.for %k = %c0 to %[[END]]
    // CHECK:        %[[W:.*]] = vk.load %weight[n, %k + k] : !vk.tensor<[N, K], f32> -> tensor<2x16x4xf32, #vk.axes<i, n, k>>
    // CHECK-NEXT:   %[[AT:.*]] = vk.load %column[n, %k + k] : !vk.tensor<[N, K], i32> -> tensor<2x16x4xi32, #vk.axes<i, n, k>>
    // CHECK-NEXT:   %[[FIRST:.*]] = vk.gather %features[%[[AT]], 4 * i]
    // CHECK-NEXT:   %[[PRODUCT:.*]] = arith.mulf %[[W]], %[[FIRST]] : tensor<2x16x4xf32, #vk.axes<i, n, k>>
    // CHECK-NEXT:   arith.addf %{{.*}}, %[[PRODUCT]]
    // CHECK-NEXT:   %[[ONE:.*]] = arith.constant 1 : i64
    // CHECK-NEXT:   vk.gather %features[%[[AT]], %[[ONE]] + 4 * i]
    // CHECK-NOT:    vk.load
    // CHECK:        scf.yield
    // CHECK:      vk.sum %{{.*}} along k
    // CHECK:      %[[ALL:.*]] = vk.interleave %{{.*}} along i
    // CHECK-NEXT: %[[START:.*]] = arith.addf %bias, %[[ALL]] : tensor<16x8xf32, #vk.axes<n, i>>
    // CHECK-NEXT: %total = scf.for %k_1 = %[[END]] to %K step %c1 iter_args(%before = %[[START]])
    %total = scf.for %k = %c0 to %K step %c1 iter_args(%before = %bias) -> (tensor<16x8xf32, #vk.axes<n, i>>) : i64 {
      %w = vk.load %weight[n, %k] : !vk.tensor<[N, K], f32> -> tensor<16xf32, #vk.axes<n>>
      %at = vk.load %column[n, %k] : !vk.tensor<[N, K], i32> -> tensor<16xi32, #vk.axes<n>>
      %f = vk.gather %features[%at, i] : !vk.scratch<[16, 8], f32>, (tensor<16xi32, #vk.axes<n>>) -> tensor<16x8xf32, #vk.axes<n, i>>
      %ws = vk.broadcast %w : tensor<16xf32, #vk.axes<n>> -> tensor<16x8xf32, #vk.axes<n, i>>
      %product = arith.mulf %ws, %f : tensor<16x8xf32, #vk.axes<n, i>>
      %after = arith.addf %before, %product : tensor<16x8xf32, #vk.axes<n, i>>
      scf.yield %after : tensor<16x8xf32, #vk.axes<n, i>>
    }
    vk.store %total in %out[n, i] : !vk.tensor<[N, I], f32> <- tensor<16x8xf32, #vk.axes<n, i>>
  }
}
