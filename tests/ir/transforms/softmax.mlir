// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=64" lanes=j}' --verify-mapped %s | filecheck %s
// A row in chunks: partial results of a whole chunk, combined once; a masked tail; full and partial program tiles.

vk.kernel @softmax(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %mb = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %d = arith.subf %row, %mb : tensor<?x?xf32, #vk.axes<i, j>>
  %e = math.exp %d : tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %e along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %sb = vk.broadcast %sum : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %q = arith.divf %e, %sb : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %q in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      vk.mapped @softmax
// CHECK:        %M = vk.size M
// CHECK-NEXT:   %N = vk.size N
// CHECK:        vk.launch "softmax" over (%p_i = %{{.*}}) {
// CHECK:          %i0 = arith.muli %p_i
// CHECK:          scf.if
// CHECK:            [[MAIN:%[0-9a-z_]+]] = scf.for %j0 =
// CHECK-NEXT:         %row = vk.load %x[%i0 + i, %j0 + j] : !vk.tensor<[M, N], f32> -> tensor<4x64xf32, #vk.axes<i, j>>
// CHECK-NEXT:         arith.maximumf {{.*}}, %row
// CHECK-NEXT:         scf.yield
// CHECK:            [[REST:%[0-9a-z_]+]] = arith.subi %N
// CHECK-NEXT:       arith.cmpi sgt, [[REST]]
// CHECK-NEXT:       scf.if
// CHECK-NEXT:         vk.load %x[%i0 + i, {{.*}} + j] within (j < [[REST]])
// CHECK-NEXT:         vk.below j < [[REST]]
// CHECK:              arith.select
// CHECK-NEXT:         arith.maximumf [[MAIN]]
// CHECK:            %max = vk.max {{.*}} along j : tensor<4x64xf32, #vk.axes<i, j>> -> tensor<4xf32, #vk.axes<i>>
// CHECK:            %sum = vk.sum
// CHECK:            vk.store {{.*}} in %out[%i0 + i, %j0{{.*}} + j] : !vk.tensor<[M, N], f32> <- tensor<4x64xf32, #vk.axes<i, j>>
// CHECK:            vk.store {{.*}} within (j < [[REST]])
// CHECK:          } else {
// CHECK:            vk.load {{.*}} within (i < {{.*}}, j < {{.*}})
// CHECK:            vk.store {{.*}} within (i < {{.*}}, j < {{.*}})

