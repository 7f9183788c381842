// RUN: vk-opt --lower-to-ttir %s | filecheck %s
// Offsets within a tile are i32, but i64 in a large tensor along axes that may reach far; a gather's as well. Guards
// compare the index with the size.

vk.mapped @offsets(%x: !vk.tensor<[M, N], f32>, %at: !vk.tensor<[M], i32>, %out: !vk.tensor<[M, N], f32>) facts {sizes = {}, multiples = {}, strides = {x = [-1, 1], at = [1], out = [-1, 1]}, large = ["x"]} {
  %M = vk.size M
  %N = vk.size N
  %c1 = arith.constant 1 : i64
  vk.launch "offsets" over (%p = %c1) {
    %rows = vk.load %at[i] within (i < %M) : !vk.tensor<[M], i32> -> tensor<4xi32, #vk.axes<i>>
    %v = vk.gather %x[%rows, j] guarding [1] : !vk.tensor<[M, N], f32>, (tensor<4xi32, #vk.axes<i>>) -> tensor<4x8xf32, #vk.axes<i, j>>
    vk.store %v in %out[i, j] within (i < %M, j < %N) : !vk.tensor<[M, N], f32> <- tensor<4x8xf32, #vk.axes<i, j>>
    %u = vk.load %x[i, j] within (i < %M, j < %N) : !vk.tensor<[M, N], f32> -> tensor<4x8xf32, #vk.axes<i, j>>
    vk.store %u in %out[i, j] within (i < %M, j < %N) : !vk.tensor<[M, N], f32> <- tensor<4x8xf32, #vk.axes<i, j>>
  }
}

// CHECK:      ^bb0(%x: !tt.ptr<f32>, [[XS:%[a-z0-9_]+]]: i64, %at: !tt.ptr<i32>, %out: !tt.ptr<f32>, [[OS:%[a-z0-9_]+]]: i32, %M: i64, %N: i64):
// CHECK:      %rows = "tt.load"
// CHECK:      [[WIDE:%[0-9]+]] = arith.extsi %rows : tensor<4xi32> to tensor<4xi64>
// CHECK:      [[FAR:%[0-9]+]] = arith.muli [[WIDE]], %{{.*}} : tensor<4xi64>
// CHECK:      "tt.addptr"(%{{.*}}) : (tensor<4x8x!tt.ptr<f32>>, tensor<4x8xi64>)
// CHECK:      "tt.addptr"(%{{.*}}) : (tensor<4x8x!tt.ptr<f32>>, tensor<4x8xi32>)
// CHECK:      %v = "tt.load"(%{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}})
// CHECK:      "tt.splat"([[OS]]) : (i32) -> tensor<4xi32>
// CHECK:      "tt.store"
// CHECK:      "tt.addptr"(%{{.*}}) : (tensor<4x8x!tt.ptr<f32>>, tensor<4x8xi64>)
// CHECK:      "tt.addptr"(%{{.*}}) : (tensor<4x8x!tt.ptr<f32>>, tensor<4x8xi32>)
// CHECK:      %u = "tt.load"
