// RUN: vk-opt '--apply-plan{tiles="i=64" chunks="n=1" copies=features lanes=i sizes="N=1024","K=32" multiples="I=64" distinct=true}' --verify-mapped %s | filecheck %s
// Two copies of the scratchpad make a layer one nest, without masks where facts say that tiles are full.

vk.kernel @spdnn(%y: !vk.tensor<[N, P], f32>, %live: !vk.tensor<[I], i64>, %column: !vk.tensor<[L, N, K], i32>, %weight: !vk.tensor<[L, N, K], f32>, %bias: f64, %out: !vk.tensor<[N, I], f32>, %peak: !vk.tensor<[I], f32>) {
  %I = vk.size I
  vk.tile i < %I
  %N = vk.size N
  vk.whole n < %N
  %L = vk.size L
  %K = vk.size K
  %c0 = arith.constant 0 : i64
  %features = vk.scratch "features" : !vk.scratch<[n, i], f32>
  %alive = vk.load %live[i] : !vk.tensor<[I], i64> -> tensor<?xi64, #vk.axes<i>>
  %first = vk.gather %y[n, %alive] : !vk.tensor<[N, P], f32>, (tensor<?xi64, #vk.axes<i>>) -> tensor<?x?xf32, #vk.axes<n, i>>
  vk.store %first in %features[n, i] : !vk.scratch<[n, i], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
  vk.range %l = %c0 to %L {
    %zero = arith.constant 0.0 : f32
    %zeros = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
    %total = vk.range %k = %c0 to %K carrying (%acc = %zeros : tensor<?x?xf32, #vk.axes<n, i>>) {
      %w = vk.load %weight[%l, n, %k] : !vk.tensor<[L, N, K], f32> -> tensor<?xf32, #vk.axes<n>>
      %c = vk.load %column[%l, n, %k] : !vk.tensor<[L, N, K], i32> -> tensor<?xi32, #vk.axes<n>>
      %g = vk.gather %features[%c, i] : !vk.scratch<[n, i], f32>, (tensor<?xi32, #vk.axes<n>>) -> tensor<?x?xf32, #vk.axes<n, i>>
      %wb = vk.broadcast %w : tensor<?xf32, #vk.axes<n>> -> tensor<?x?xf32, #vk.axes<n, i>>
      %p = arith.mulf %wb, %g : tensor<?x?xf32, #vk.axes<n, i>>
      %next = arith.addf %acc, %p : tensor<?x?xf32, #vk.axes<n, i>>
      vk.yield %next : tensor<?x?xf32, #vk.axes<n, i>>
    }
    vk.boundary
    %b = arith.truncf %bias : f64 to f32
    %bb = vk.broadcast %b : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
    %sum = arith.addf %total, %bb : tensor<?x?xf32, #vk.axes<n, i>>
    %c32 = arith.constant 32.0 : f32
    %hi = vk.broadcast %c32 : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
    %lo = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<n, i>>
    %m1 = arith.minimumf %sum, %hi : tensor<?x?xf32, #vk.axes<n, i>>
    %m2 = arith.maximumf %m1, %lo : tensor<?x?xf32, #vk.axes<n, i>>
    vk.store %m2 in %features[n, i] : !vk.scratch<[n, i], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
  }
  %last = vk.load %features[n, i] : !vk.scratch<[n, i], f32> -> tensor<?x?xf32, #vk.axes<n, i>>
  vk.store %last in %out[n, i] : !vk.tensor<[N, I], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
  %max = vk.max %last along n : tensor<?x?xf32, #vk.axes<n, i>> -> tensor<?xf32, #vk.axes<i>>
  vk.store %max in %peak[i] : !vk.tensor<[I], f32> <- tensor<?xf32, #vk.axes<i>>
}

// CHECK:      vk.mapped @spdnn
// CHECK:        vk.launch "spdnn" over (%p_i = %{{.*}}) {
// CHECK-NEXT:     %features = vk.scratch "features" : !vk.scratch<[1024, 64], f32>
// CHECK-NEXT:     %features_1 = vk.scratch "features_2" : !vk.scratch<[1024, 64], f32>
// CHECK:          scf.for %l = {{.*}} iter_args(%[[OLD:[a-z0-9_]+]] = %features, %[[NEW:[a-z0-9_]+]] = %features_1)
// CHECK:            vk.barrier
// CHECK-NEXT:       scf.for %n0
// CHECK:              scf.for %k
// CHECK-NEXT:           %w = vk.load %weight[%l, %n0{{.*}} + n, %k] :
// CHECK-NEXT:           %c = vk.load %column[%l, %n0{{.*}} + n, %k] :
// CHECK-NEXT:           %g = vk.gather %[[OLD]][%c, i] :
// CHECK-NEXT:           vk.broadcast %w
// CHECK-NEXT:           arith.mulf
// CHECK-NEXT:           arith.addf
// CHECK-NEXT:           scf.yield
// CHECK:              vk.store {{.*}} in %[[NEW]][%n0{{.*}} + n, i] :
// CHECK:            scf.yield %[[NEW]], %[[OLD]]
// CHECK-NOT:    within
// CHECK-NOT:    vk.buffer
