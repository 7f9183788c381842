// RUN: vk-opt '--apply-plan{tiles="i=64" chunks="n=1" copies=features lanes=i sizes="N=8","K=2" distinct=true}' --fill-tails --verify-mapped %s | filecheck %s
// In a tail, stores to a scratchpad write zeros to lanes that are out of range, and loads from it take all lanes;
// tensors keep their bounds. A scratchpad that is stored under a mask keeps them too.

vk.kernel @layers(%y: !vk.tensor<[N, I], f32>, %column: !vk.tensor<[L, N], i32>, %out: !vk.tensor<[N, I], f32>, %other: !vk.tensor<[I], f32>) {
  %I = vk.size I
  vk.tile i < %I
  %N = vk.size N
  vk.whole n < %N
  %L = vk.size L
  %c0 = arith.constant 0 : i64
  %zero = arith.constant 0.0 : f32
  %features = vk.scratch "features" : !vk.scratch<[n, i], f32>
  %first = vk.load %y[n, i] : !vk.tensor<[N, I], f32> -> tensor<?x?xf32, #vk.axes<n, i>>
  vk.store %first in %features[n, i] : !vk.scratch<[n, i], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
  vk.range %l = %c0 to %L {
    %c = vk.load %column[%l, n] : !vk.tensor<[L, N], i32> -> tensor<?xi32, #vk.axes<n>>
    %g = vk.gather %features[%c, i] : !vk.scratch<[n, i], f32>, (tensor<?xi32, #vk.axes<n>>) -> tensor<?x?xf32, #vk.axes<n, i>>
    vk.boundary
    %twice = arith.addf %g, %g : tensor<?x?xf32, #vk.axes<n, i>>
    vk.store %twice in %features[n, i] : !vk.scratch<[n, i], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
  }
  %last = vk.load %features[n, i] : !vk.scratch<[n, i], f32> -> tensor<?x?xf32, #vk.axes<n, i>>
  vk.store %last in %out[n, i] : !vk.tensor<[N, I], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
  %kept = vk.scratch "kept" : !vk.scratch<[i], f32>
  %o = vk.load %other[i] : !vk.tensor<[I], f32> -> tensor<?xf32, #vk.axes<i>>
  %lo = vk.broadcast %zero : f32 -> tensor<?xf32, #vk.axes<i>>
  vk.store %lo in %kept[i] : !vk.scratch<[i], f32> <- tensor<?xf32, #vk.axes<i>>
  %positive = arith.cmpf ogt, %o, %lo : tensor<?xf32, #vk.axes<i>>
  vk.store %o in %kept[i] where %positive : !vk.scratch<[i], f32> <- tensor<?xf32, #vk.axes<i>>
  %read = vk.load %kept[i] : !vk.scratch<[i], f32> -> tensor<?xf32, #vk.axes<i>>
  vk.store %read in %other[i] : !vk.tensor<[I], f32> <- tensor<?xf32, #vk.axes<i>>
}

// CHECK:      scf.if
// CHECK:      } else {
// CHECK:        %[[Y:.*]] = vk.load %y[%{{.*}} + n, %i0 + i] within (i < %[[COUNT:.*]]) :
// CHECK-NEXT:   vk.store %[[Y]] in %features[%{{.*}} + n, i] :
// CHECK:        vk.gather %{{.*}}[%{{.*}}, i] :
// CHECK:        %[[BELOW:.*]] = vk.below i < %[[COUNT]] :
// CHECK:        %[[FILLED:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<1x64xi1
// CHECK-NEXT:   vk.store %[[FILLED]] in %{{.*}}[%{{.*}} + n, i] :
// CHECK:        vk.store %{{.*}} in %kept[i] within (i < %{{.*}}) where
// CHECK:        vk.load %kept[i] within (i < %{{.*}}) :
// CHECK:        %[[LAST:.*]] = vk.load %{{.*}}[%{{.*}} + n, i] :
// CHECK:        vk.store %[[LAST]] in %out[%{{.*}} + n, %i0 + i] within (i < %[[COUNT]]) :
