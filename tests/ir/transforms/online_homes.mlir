// RUN: vk-opt '--apply-plan{tiles="i=16" chunks="j=4","e=2" homes="dot=shared" online=j lanes=i sizes="E=8","N=1024" multiples="M=16" distinct=true}' --verify-mapped %s | filecheck %s
// A dot that goes online is accumulated in its home where the axis of its result is processed in chunks: each chunk of j
// is added to all chunks of e. The home is rescaled only where a base moves. After a block of 128 products its sum is
// added to that of the blocks before, which lies beside it. What the loop carries is put aside while inner loops run.

vk.kernel @weighted(%x: !vk.tensor<[M, N], f32>, %v: !vk.tensor<[N, E], f32>, %out: !vk.tensor<[M, E], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %E = vk.size E
  vk.whole e < %E
  %zero = arith.constant 0.0 : f32
  %score = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %score along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %mb = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %d = arith.subf %score, %mb : tensor<?x?xf32, #vk.axes<i, j>>
  %p = math.exp %d : tensor<?x?xf32, #vk.axes<i, j>>
  %value = vk.load %v[j, e] : !vk.tensor<[N, E], f32> -> tensor<?x?xf32, #vk.axes<j, e>>
  %start = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, e>>
  %dot = vk.dot %p, %value, %start along j precision ieee : tensor<?x?xf32, #vk.axes<i, j>>, tensor<?x?xf32, #vk.axes<j, e>>, tensor<?x?xf32, #vk.axes<i, e>>
  vk.store %dot in %out[i, e] : !vk.tensor<[M, E], f32> <- tensor<?x?xf32, #vk.axes<i, e>>
}

// CHECK:      %dot = vk.scratch "dot" : !vk.scratch<[8, 16], f32>
// CHECK-NEXT: %dot_blocks = vk.scratch "dot_blocks" : !vk.scratch<[8, 16], f32>
// CHECK:      scf.for %e0
// CHECK-NEXT:   vk.store %{{[0-9]+}} in %dot[
// CHECK:      scf.for %e0
// CHECK-NEXT:   vk.store %{{[0-9]+}} in %dot_blocks[
// CHECK:      %max, %[[BASE:[0-9]+]] = scf.for %j0
// CHECK-NEXT:   vk.spill
// CHECK-NEXT:   vk.spill
// CHECK-NEXT:   %score = vk.load %x
// CHECK-NEXT:   vk.reload
// CHECK-NEXT:   vk.reload
// CHECK:        %[[UP:[0-9]+]] = arith.cmpf ogt
// CHECK:        %[[ANY:[0-9]+]] = arith.cmpi ne
// CHECK-NEXT:   scf.if %[[ANY]]
// CHECK:          %[[SCALE:[0-9]+]] = arith.select %[[UP]]
// CHECK-NEXT:     scf.for %e0
// CHECK-NEXT:       %[[SUM:[0-9]+]] = vk.load %dot[
// CHECK-NEXT:       %[[BY:[0-9]+]] = vk.broadcast %[[SCALE]]
// CHECK-NEXT:       %[[RESCALED:[0-9]+]] = arith.mulf %[[SUM]], %[[BY]]
// CHECK-NEXT:       vk.store %[[RESCALED]] in %dot[
// CHECK:          scf.for %e0
// CHECK-NEXT:       vk.load %dot_blocks[
// CHECK:        } else {
// CHECK:        %[[P:[0-9]+]] = math.exp %{{[0-9]+}} : tensor<16x4xf32
// CHECK-NEXT:   vk.spill
// CHECK-NEXT:   vk.spill
// CHECK-NEXT:   scf.for %e0
// CHECK-NEXT:     %value = vk.load %v
// CHECK-NEXT:     %[[BEFORE:[0-9]+]] = vk.load %dot[
// CHECK-NEXT:     %[[AFTER:[0-9]+]] = vk.dot %[[P]], %value, %[[BEFORE]] along j
// CHECK-NEXT:     vk.store %[[AFTER]] in %dot[
// CHECK-NEXT:   }
// CHECK-NEXT:   %[[PLACE:[0-9]+]] = arith.remui %j0
// CHECK-NEXT:   %[[ENDS:[0-9]+]] = arith.cmpi sge, %[[PLACE]]
// CHECK-NEXT:   scf.if %[[ENDS]] {
// CHECK-NEXT:     scf.for %e0
// CHECK-NEXT:       %[[BLOCK:[0-9]+]] = vk.load %dot[
// CHECK-NEXT:       %[[BLOCKS:[0-9]+]] = vk.load %dot_blocks[
// CHECK-NEXT:       %[[BOTH:[0-9]+]] = arith.addf %[[BLOCKS]], %[[BLOCK]]
// CHECK-NEXT:       vk.store %[[BOTH]] in %dot_blocks[
// CHECK-NEXT:       vk.store %{{[0-9]+}} in %dot[
// CHECK:      scf.for %e0
// CHECK-NEXT:   %[[LAST:[0-9]+]] = vk.load %dot[
// CHECK-NEXT:   %[[FIRST:[0-9]+]] = vk.load %dot_blocks[
// CHECK-NEXT:   arith.addf %[[FIRST]], %[[LAST]]
// CHECK:        vk.store %{{[0-9]+}} in %dot[
// CHECK:      scf.for %e0
// CHECK-NEXT:   vk.load %dot[
// CHECK-NEXT:   vk.store %{{.*}} in %out[
